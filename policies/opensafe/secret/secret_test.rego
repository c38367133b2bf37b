package opensafe.secret_test

import data.opensafe.sample

test_block_tool_write_secret_block if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`echo`, `AKIAIOSFODNN7EXAMPLE`])], "writes": [sample.path("/workspace/a", ["workspace"])]}))
	sample.blocked_by(verdict, "tool.write.secret.block")
}

test_block_tool_write_secret_block_2 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.with_field(sample.command([`cat`]), {"redirects": [{"op": "<<", "fd": null, "target": "-----BEGIN RSA PRIVATE KEY"}]})], "writes": [sample.path("/workspace/a", ["workspace"])]}))
	sample.blocked_by(verdict, "tool.write.secret.block")
}

test_block_tool_write_secret_block_3 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.with_field(sample.command([`curl`]), {"assignments": {"T": "ghp_0123456789abcdef"}})], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.blocked_by(verdict, "tool.write.secret.block")
}

test_allow_tool_write_secret_block if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`echo`, `plain text of some length`])], "writes": [sample.path("/workspace/a", ["workspace"])]}))
	sample.allowed(verdict, "tool.write.secret.block")
}

test_allow_tool_write_secret_block_2 if {
	verdict := sample.judge("bash", sample.bash([sample.command([`grep`, `-rn`, `AKIAIOSFODNN7EXAMPLE`])]))
	sample.allowed(verdict, "tool.write.secret.block")
}

test_missing_tool_write_secret_block if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`echo`, `AKIAIOSFODNN7EXAMPLE`])], "writes": [sample.path("/workspace/a", ["workspace"])]}), "/call/commands/0/argv"))
	sample.blocked_by(verdict, "default.deny")
}

test_block_tool_write_secret_block_content if {
	verdict := sample.judge("write", sample.call("Write", {"arguments": {"content": {"bytes": 1, "shapes": {"secret": true}}}, "writes": [sample.path("/workspace/a", ["workspace"])], "size": 1}))
	sample.blocked_by(verdict, "tool.write.secret.block")
}

test_allow_tool_write_secret_block_content if {
	verdict := sample.judge("write", sample.call("Write", {"arguments": {"content": {"bytes": 1, "shapes": {}}}, "writes": [sample.path("/workspace/a", ["workspace"])], "size": 1}))
	sample.allowed(verdict, "tool.write.secret.block")
}

test_missing_tool_write_secret_block_content if {
	verdict := sample.judge("write", sample.without(sample.call("Write", {"arguments": {"content": {"bytes": 1, "shapes": {}}}, "writes": [sample.path("/workspace/a", ["workspace"])], "size": 1}), "/call/arguments/content"))
	sample.blocked_by(verdict, "tool.write.secret.block")
}

test_missing_tool_write_secret_block_shapes if {
	question := sample.call("Write", {"writes": [sample.path("/workspace/a", ["workspace"])], "size": 1})
	verdict := sample.judge("write", sample.without(question, "/call/arguments/content/shapes"))
	sample.blocked_by(verdict, "tool.write.secret.block")
}

test_block_tool_write_secret_block_commit if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `commit`, `-m`, `rotate AKIAQ7XK2MZP4LWN6RTB`])]))
	sample.blocked_by(verdict, "tool.write.secret.block")
}

test_allow_tool_write_secret_block_commit if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `commit`, `-m`, `rotate the deployment key`])]))
	sample.allowed(verdict, "tool.write.secret.block")
}

test_allow_tool_write_secret_block_content_that_follows if {
	facts := {"arguments": {}, "content_opaque": true, "writes": [sample.path("/workspace/a", ["workspace"])], "size": 10}
	sample.allowed(sample.judge("write", sample.call("Write", facts)), "tool.write.secret.block")
}
