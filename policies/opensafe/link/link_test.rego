package opensafe.link_test

import data.opensafe.sample

test_block_tool_write_symlink_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ln`, `-s`, `/etc/passwd`, `x`])], "reads": [sample.path("/etc/x", ["system"])]}))
	sample.blocked_by(verdict, "tool.write.symlink.deny")
}

test_block_tool_write_symlink_deny_2 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ln`, `-s`, `../etc/x`, `x`])], "reads": [sample.path("/etc/x", ["system"])]}))
	sample.blocked_by(verdict, "tool.write.symlink.deny")
}

test_block_tool_write_symlink_deny_3 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ln`, `-s`, `/workspace/../etc/x`, `x`])], "reads": [sample.path("/etc/x", ["system"])]}))
	sample.blocked_by(verdict, "tool.write.symlink.deny")
}

test_block_tool_write_symlink_deny_4 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ln`, `-s`, `..`, `up`])], "reads": [sample.path("/etc/x", ["system"])]}))
	sample.blocked_by(verdict, "tool.write.symlink.deny")
}

test_block_tool_write_symlink_deny_5 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`cp`, `-s`, `/etc/passwd`, `x`])], "reads": [sample.path("/etc/x", ["system"])]}))
	sample.blocked_by(verdict, "tool.write.symlink.deny")
}

test_block_tool_write_symlink_deny_6 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ln`, `-s`, `../..`, `a/b`])], "reads": [sample.path("/etc/x", ["system"])]}))
	sample.blocked_by(verdict, "tool.write.symlink.deny")
}

test_allow_tool_write_symlink_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ln`, `-s`, `src/a`, `b`])], "reads": []}))
	sample.allowed(verdict, "tool.write.symlink.deny")
}

test_allow_tool_write_symlink_deny_2 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ln`, `-s`, `../lib/a.so`, `bin/a`])], "reads": []}))
	sample.allowed(verdict, "tool.write.symlink.deny")
}

test_allow_tool_write_symlink_deny_3 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ln`, `-s`, `/workspace/a`, `b`])], "reads": []}))
	sample.allowed(verdict, "tool.write.symlink.deny")
}

test_allow_tool_write_symlink_deny_4 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ln`, `-s`, `/tmp`, `b`])], "reads": []}))
	sample.allowed(verdict, "tool.write.symlink.deny")
}

test_allow_tool_write_symlink_deny_5 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ln`, `-sfn`, `/workspace`, `b`])], "reads": []}))
	sample.allowed(verdict, "tool.write.symlink.deny")
}

test_allow_tool_write_symlink_deny_6 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ln`, `-s`, null, `b`])], "reads": []}))
	sample.allowed(verdict, "tool.write.symlink.deny")
}

test_allow_tool_write_symlink_deny_7 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ln`, `-s`, `a`, null])], "reads": []}))
	sample.allowed(verdict, "tool.write.symlink.deny")
}

test_allow_tool_write_symlink_deny_8 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ln`, `-s`, `../x`, `y`])], "reads": [sample.path("/workspace/a/x", ["workspace"])]}))
	sample.allowed(verdict, "tool.write.symlink.deny")
}

test_allow_tool_write_symlink_deny_9 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ln`, `-s`, `../x`, `y`])], "reads": [sample.path("/tmp/x", ["tmp"])]}))
	sample.allowed(verdict, "tool.write.symlink.deny")
}

test_allow_tool_write_symlink_deny_10 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`cp`, `a`, `b`])], "reads": []}))
	sample.allowed(verdict, "tool.write.symlink.deny")
}

test_missing_tool_write_symlink_deny if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`ln`, `-s`, `a`, `b`])], "reads": []}), "/call/commands/0/argv"))
	sample.blocked_by(verdict, "tool.write.symlink.deny")
}

test_block_tool_write_symlink_deny_pattern if {
	verdict := sample.judge("bash", sample.call("Bash", {
		"commands": [sample.command([`ln`, `-s`, null, `links/`])],
		"reads": [sample.path("/etc/*.conf", ["system"])],
	}))
	sample.blocked_by(verdict, "tool.write.symlink.deny")
}

test_allow_tool_write_symlink_deny_pattern if {
	verdict := sample.judge("bash", sample.call("Bash", {
		"commands": [sample.command([`ln`, `-s`, null, `links/`])],
		"reads": [sample.path("/workspace/etc/*.conf", ["workspace"])],
	}))
	sample.allowed(verdict, "tool.write.symlink.deny")
}
