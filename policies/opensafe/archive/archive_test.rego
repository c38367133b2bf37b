package opensafe.archive_test

import data.opensafe.sample

test_block_tool_archive_member_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`tar`, `-P`, `-xf`, `a.tar`])]))
	sample.blocked_by(verdict, "tool.archive.member.deny")
}

test_block_tool_archive_member_deny_2 if {
	verdict := sample.judge("bash", sample.bash([sample.command([`tar`, `xPf`, `a.tar`])]))
	sample.blocked_by(verdict, "tool.archive.member.deny")
}

test_block_tool_archive_member_deny_3 if {
	verdict := sample.judge("bash", sample.bash([sample.command([`tar`, `x`, `-fP`, `a.tar`])]))
	sample.blocked_by(verdict, "tool.archive.member.deny")
}

test_block_tool_archive_member_deny_4 if {
	verdict := sample.judge("bash", sample.bash([sample.command([`tar`, `xf`, `a.tar`, `--transform=s,^,/etc/,`])]))
	sample.blocked_by(verdict, "tool.archive.member.deny")
}

test_block_tool_archive_member_deny_5 if {
	verdict := sample.judge("bash", sample.bash([sample.command([`tar`, `xf`, `a.tar`, `../../etc/passwd`])]))
	sample.blocked_by(verdict, "tool.archive.member.deny")
}

test_block_tool_archive_member_deny_6 if {
	verdict := sample.judge("bash", sample.bash([sample.command([`unzip`, `-:`, `a.zip`])]))
	sample.blocked_by(verdict, "tool.archive.member.deny")
}

test_block_tool_archive_member_deny_7 if {
	verdict := sample.judge("bash", sample.bash([sample.command([`unzip`, `a.zip`, `x/../../y`])]))
	sample.blocked_by(verdict, "tool.archive.member.deny")
}

test_allow_tool_archive_member_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`tar`, `xzf`, `vendor.tgz`])]))
	sample.allowed(verdict, "tool.archive.member.deny")
}

test_allow_tool_archive_member_deny_2 if {
	verdict := sample.judge("bash", sample.bash([sample.command([`tar`, `--list`, `-f`, null])]))
	sample.allowed(verdict, "tool.archive.member.deny")
}

test_allow_tool_archive_member_deny_3 if {
	verdict := sample.judge("bash", sample.bash([sample.command([`unzip`, `-l`, `a.zip`])]))
	sample.allowed(verdict, "tool.archive.member.deny")
}

test_missing_tool_archive_member_deny if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`tar`, `xf`, `a.tar`])]), "/call/commands/0/argv"))
	sample.blocked_by(verdict, "tool.archive.member.deny")
}
