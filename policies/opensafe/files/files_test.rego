package opensafe.files_test

import data.opensafe.sample

_inside := sample.path("/workspace/src", ["workspace"])

_scratch := sample.path("/tmp/src", ["tmp"])

_outside := sample.path("/usr/lib/x", ["system"])

_hook := sample.path("/workspace/.git/hooks/pre-commit", ["workspace", "vcs"])

_judge(tool, facts) := sample.judge("files", sample.call(tool, facts))

test_allow_tool_files_workspace_allow if {
	sample.allowed_by(_judge("Remove", {"deletes": [_inside]}), "tool.files.workspace.allow")
	sample.allowed_by(_judge("Mkdir", {"writes": [_scratch]}), "tool.files.workspace.allow")
	sample.allowed_by(_judge("Watch", {"reads": [_inside]}), "tool.files.workspace.allow")
	sample.allowed_by(_judge("Download", {"reads": [_inside], "tree": true}), "tool.files.workspace.allow")
	sample.allowed_by(_judge("Upload", {"writes": [_inside], "tree": true}), "tool.files.workspace.allow")
}

test_allow_tool_files_workspace_allow_move if {
	facts := {"reads": [_inside], "deletes": [_inside], "writes": [_scratch]}
	sample.allowed_by(_judge("Move", facts), "tool.files.workspace.allow")
}

test_block_tool_files_workspace_allow if {
	sample.blocked_by(_judge("Remove", {"deletes": [_outside]}), "tool.delete.scope.deny")
	sample.blocked_by(_judge("Remove", {"deletes": [sample.path("/workspace", ["workspace"])]}), "tool.delete.scope.deny")
	sample.blocked_by(_judge("Mkdir", {"writes": [_outside]}), "tool.write.path.allowlist")
	sample.blocked_by(_judge("Upload", {"writes": [_hook], "tree": true}), "tool.write.vcs.deny")
	sample.blocked_by(_judge("Watch", {"reads": [_outside]}), "default.deny")
}

test_block_tool_files_workspace_allow_move if {
	secret := sample.path("/workspace/.env", ["workspace", "secret"])
	facts := {"reads": [secret], "deletes": [secret], "writes": [_inside]}
	sample.blocked_by(_judge("Move", facts), "tool.read.secrets.block")
	into := {"reads": [_inside], "deletes": [_inside], "writes": [_hook]}
	sample.blocked_by(_judge("Move", into), "tool.write.vcs.deny")
}

test_missing_tool_files_workspace_allow if {
	sample.blocked_by(_judge("Watch", {}), "default.deny")
	question := sample.without(sample.call("Watch", {"reads": [_inside]}), "/call/deletes")
	sample.blocked_by(sample.judge("files", question), "default.deny")
}

# What a tree must leave out goes with its grant, and with no other.
test_allow_tool_files_workspace_allow_held if {
	paths := _judge("Download", {"reads": [_inside], "tree": true}).grant.paths
	"**/.ssh/" in paths.hold_read
	"**/.git/" in paths.hold_write
	object.keys(_judge("Mkdir", {"writes": [_inside]}).grant.paths) == {"read", "write"}
}
