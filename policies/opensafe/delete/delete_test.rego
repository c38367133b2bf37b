package opensafe.delete_test

import data.opensafe.sample

test_block_tool_delete_scope_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`rm`, `x`])], "deletes": [sample.path("/etc/x", ["system"])]}))
	sample.blocked_by(verdict, "tool.delete.scope.deny")
}

test_block_tool_delete_scope_deny_2 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`rm`, `x`])], "deletes": [sample.path("/workspace", ["workspace"])]}))
	sample.blocked_by(verdict, "tool.delete.scope.deny")
}

test_block_tool_delete_scope_deny_3 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`rm`, `x`])], "deletes": [sample.path("/workspace/*", ["workspace"])]}))
	sample.blocked_by(verdict, "tool.delete.scope.deny")
}

test_block_tool_delete_scope_deny_4 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`rm`, `x`])], "deletes": [sample.path("/workspace/.git", ["workspace", "vcs"])]}))
	sample.blocked_by(verdict, "tool.delete.scope.deny")
}

test_block_tool_delete_scope_deny_5 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`find`, `.`, `-delete`])], "deletes": [sample.path("/workspace", ["workspace"])]}))
	sample.blocked_by(verdict, "tool.delete.scope.deny")
}

test_block_tool_delete_scope_deny_6 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`find`, `.`, `-name`, `*`, `-delete`])], "deletes": [sample.path("/workspace", ["workspace"])]}))
	sample.blocked_by(verdict, "tool.delete.scope.deny")
}

test_block_tool_delete_scope_deny_7 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`find`, `.`, `-delete`, `-name`, `x`])], "deletes": [sample.path("/workspace", ["workspace"])]}))
	sample.blocked_by(verdict, "tool.delete.scope.deny")
}

test_block_tool_delete_scope_deny_8 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`find`, `.`, `-name`, `x`, `-o`, `-delete`])], "deletes": [sample.path("/workspace", ["workspace"])]}))
	sample.blocked_by(verdict, "tool.delete.scope.deny")
}

test_block_tool_delete_scope_deny_9 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`find`, `.`, `-name`, `x`, `-delete`]), sample.command([`rm`, `-rf`, `.`])], "deletes": [sample.path("/workspace", ["workspace"])]}))
	sample.blocked_by(verdict, "tool.delete.scope.deny")
}

test_block_tool_delete_scope_deny_10 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`find`, `.`, `-type`, `f`, `-delete`])], "deletes": [sample.path("/workspace", ["workspace"])]}))
	sample.blocked_by(verdict, "tool.delete.scope.deny")
}

test_allow_tool_delete_scope_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`rm`, `x`])], "deletes": [sample.path("/workspace/build", ["workspace"])]}))
	sample.allowed(verdict, "tool.delete.scope.deny")
}

test_allow_tool_delete_scope_deny_2 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`rm`, `x`])], "deletes": [sample.path("/tmp/a", ["tmp"])]}))
	sample.allowed(verdict, "tool.delete.scope.deny")
}

test_allow_tool_delete_scope_deny_3 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`rm`, `x`])], "deletes": [sample.path("/workspace/.git/index.lock", ["workspace", "vcs"])]}))
	sample.allowed(verdict, "tool.delete.scope.deny")
}

test_allow_tool_delete_scope_deny_4 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`find`, `.`, `-name`, `*.pyc`, `-delete`])], "deletes": [sample.path("/workspace", ["workspace"])]}))
	sample.allowed(verdict, "tool.delete.scope.deny")
}

test_allow_tool_delete_scope_deny_5 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`find`, `.`, `-type`, `d`, `-name`, `__pycache__`, `-exec`, `rm`, `-rf`, `{}`, `+`]), sample.with_field(sample.command([`rm`, `-rf`, null]), {"via": ["find"]})], "deletes": [sample.path("/workspace", ["workspace"])]}))
	sample.allowed(verdict, "tool.delete.scope.deny")
}

test_missing_tool_delete_scope_deny if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`rm`, `x`])], "deletes": [sample.path("/workspace/build", ["workspace"])]}), "/call/deletes/0/classes"))
	sample.blocked_by(verdict, "tool.delete.scope.deny")
}

test_block_tool_delete_scope_deny_glob_at_the_root if {
	question := sample.call("Bash", {
		"commands": [sample.command([`rm`, `x`])],
		"deletes": [sample.path("/*", ["workspace", "tmp", "system"])],
	})
	sample.blocked_by(sample.judge("bash", question), "tool.delete.scope.deny")
}

test_block_tool_delete_scope_deny_root_behind_a_restricted_find if {
	item := sample.with_field(sample.command([`rm`, `-rf`, `/workspace`]), {"via": ["find"]})
	question := sample.call("Bash", {
		"commands": [sample.command([`find`, `.`, `-name`, `x`, `-exec`, `rm`, `-rf`, `/workspace`, `;`]), item],
		"deletes": [sample.path("/workspace", ["workspace"])],
	})
	sample.blocked_by(sample.judge("bash", question), "tool.delete.scope.deny")
}

test_allow_tool_delete_scope_deny_beside_git if {
	question := sample.call("Bash", {
		"commands": [sample.command([`git`, `status`]), sample.command([`find`, `.`, `-name`, `*.pyc`, `-delete`])],
		"deletes": [sample.path("/workspace", ["workspace"])],
	})
	sample.allowed(sample.judge("bash", question), "tool.delete.scope.deny")
}

test_block_tool_delete_scope_deny_beside_git_clean if {
	question := sample.call("Bash", {
		"commands": [sample.command([`git`, `clean`]), sample.command([`find`, `.`, `-name`, `*.pyc`, `-delete`])],
		"deletes": [sample.path("/workspace", ["workspace"])],
	})
	sample.blocked_by(sample.judge("bash", question), "tool.delete.scope.deny")
}
