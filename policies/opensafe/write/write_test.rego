package opensafe.write_test

import data.opensafe.sample

test_block_tool_write_path_allowlist if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/usr/bin/x", ["system"])], "size": 10}))
	sample.blocked_by(verdict, "tool.write.path.allowlist")
}

test_block_tool_write_path_allowlist_operand if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`tee`, `/usr/bin/x`])], "writes": [sample.path("/usr/bin/x", ["system"])]}))
	sample.blocked_by(verdict, "tool.write.path.allowlist")
}

test_allow_tool_write_path_allowlist if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/workspace/src/app.ts", ["workspace"])], "size": 10}))
	sample.allowed(verdict, "tool.write.path.allowlist")
}

test_missing_tool_write_path_allowlist if {
	verdict := sample.judge("write", sample.without(sample.call("Write", {"writes": [sample.path("/workspace/src/app.ts", ["workspace"])], "size": 10}), "/call/writes/0/classes"))
	sample.blocked_by(verdict, "tool.write.path.allowlist")
}

test_block_tool_write_vcs_deny if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/workspace/.git/hooks/pre-commit", ["workspace", "vcs"])], "size": 10}))
	sample.blocked_by(verdict, "tool.write.vcs.deny")
}

test_block_tool_write_vcs_deny_operand if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`tee`, `/workspace/.git/hooks/pre-commit`])], "writes": [sample.path("/workspace/.git/hooks/pre-commit", ["workspace", "vcs"])]}))
	sample.blocked_by(verdict, "tool.write.vcs.deny")
}

test_allow_tool_write_vcs_deny if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/workspace/src/app.ts", ["workspace"])], "size": 10}))
	sample.allowed(verdict, "tool.write.vcs.deny")
}

test_missing_tool_write_vcs_deny if {
	verdict := sample.judge("write", sample.without(sample.call("Write", {"writes": [sample.path("/workspace/src/app.ts", ["workspace"])], "size": 10}), "/call/writes/0/classes"))
	sample.blocked_by(verdict, "tool.write.vcs.deny")
}

test_block_tool_write_rc_deny if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/workspace/.envrc", ["workspace", "rc"])], "size": 10}))
	sample.blocked_by(verdict, "tool.write.rc.deny")
}

test_block_tool_write_rc_deny_operand if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`tee`, `/workspace/.envrc`])], "writes": [sample.path("/workspace/.envrc", ["workspace", "rc"])]}))
	sample.blocked_by(verdict, "tool.write.rc.deny")
}

test_allow_tool_write_rc_deny if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/workspace/src/app.ts", ["workspace"])], "size": 10}))
	sample.allowed(verdict, "tool.write.rc.deny")
}

test_missing_tool_write_rc_deny if {
	verdict := sample.judge("write", sample.without(sample.call("Write", {"writes": [sample.path("/workspace/src/app.ts", ["workspace"])], "size": 10}), "/call/writes/0/classes"))
	sample.blocked_by(verdict, "tool.write.rc.deny")
}

test_allow_tool_write_path_allowlist_null if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`make`])], "writes": [sample.path("/dev/null", ["device", "stream"])]}))
	sample.allowed(verdict, "tool.write.path.allowlist")
}

test_block_tool_write_size_limit if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/workspace/a", ["workspace"])], "size": 16777217}))
	sample.blocked_by(verdict, "tool.write.size.limit")
}

test_block_tool_write_size_limit_negative if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/workspace/a", ["workspace"])], "size": -1}))
	sample.blocked_by(verdict, "tool.write.size.limit")
}

test_allow_tool_write_size_limit if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/workspace/a", ["workspace"])], "size": 16777216}))
	sample.allowed(verdict, "tool.write.size.limit")
}

test_missing_tool_write_size_limit if {
	verdict := sample.judge("write", sample.without(sample.call("Write", {"writes": [sample.path("/workspace/src/app.ts", ["workspace"])], "size": 10}), "/call/size"))
	sample.blocked_by(verdict, "tool.write.size.limit")
}

test_allow_tool_write_workspace_allow if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/workspace/src/app.ts", ["workspace"])], "size": 10}))
	sample.allowed_by(verdict, "tool.write.workspace.allow")
}

test_allow_tool_write_workspace_allow_tmp if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/tmp/a", ["tmp"])], "size": 10}))
	sample.allowed_by(verdict, "tool.write.workspace.allow")
}

test_block_tool_write_workspace_allow if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/etc/hosts", ["system"])], "size": 10}))
	sample.blocked_by(verdict, "tool.write.path.allowlist")
}

test_missing_tool_write_workspace_allow if {
	verdict := sample.judge("write", sample.without(sample.call("Write", {"writes": [sample.path("/workspace/src/app.ts", ["workspace"])], "size": 10}), "/call/writes"))
	sample.blocked_by(verdict, "default.deny")
}

test_review_tool_write_ci_review if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/workspace/.github/workflows/ci.yml", ["workspace", "ci"])], "size": 10}))
	sample.reviewed_by(verdict, "tool.write.ci.review")
}

test_allow_tool_write_ci_review if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/workspace/a", ["workspace"])], "size": 10}))
	sample.allowed(verdict, "tool.write.ci.review")
}

test_missing_tool_write_ci_review if {
	verdict := sample.judge("write", sample.without(sample.call("Write", {"writes": [sample.path("/workspace/a", ["workspace"])], "size": 10}), "/call/writes/0/classes"))
	sample.blocked_by(verdict, "tool.write.path.allowlist")
}

test_review_tool_write_binary_review if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/workspace/.venv/bin/x", ["workspace", "bin"])], "size": 10}))
	sample.reviewed_by(verdict, "tool.write.binary.review")
}

test_allow_tool_write_binary_review if {
	verdict := sample.judge("write", sample.call("Write", {"writes": [sample.path("/workspace/a", ["workspace"])], "size": 10}))
	sample.allowed(verdict, "tool.write.binary.review")
}

test_missing_tool_write_binary_review if {
	verdict := sample.judge("write", sample.without(sample.call("Write", {"writes": [sample.path("/workspace/a", ["workspace"])], "size": 10}), "/call/writes/0/classes"))
	sample.blocked_by(verdict, "tool.write.path.allowlist")
}

test_block_tool_write_size_limit_streamed if {
	facts := {"writes": [sample.path("/workspace/a", ["workspace"])], "size": 68719476737, "content_opaque": true}
	sample.blocked_by(sample.judge("write", sample.call("Write", facts)), "tool.write.size.limit")
}

test_allow_tool_write_size_limit_streamed if {
	facts := {"writes": [sample.path("/workspace/a", ["workspace"])], "size": 1073741824, "content_opaque": true}
	sample.allowed(sample.judge("write", sample.call("Write", facts)), "tool.write.size.limit")
}
