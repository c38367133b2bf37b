package opensafe.copies_test

import data.opensafe.sample

test_block_tool_exec_path_deny_copy if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`cat`, `/usr/sbin/mke2fs`])], "reads": [sample.path("/usr/sbin/mke2fs", ["system"])], "writes": [sample.path("/workspace/own", ["workspace"])]}))
	sample.blocked_by(verdict, "tool.exec.path.deny")
}

test_block_tool_exec_path_deny_copy_directory if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`cp`, `-r`, `/usr/sbin`, `all`])], "reads": [sample.path("/usr/sbin", ["system"])], "writes": [sample.path("/workspace/all", ["workspace"])]}))
	sample.blocked_by(verdict, "tool.exec.path.deny")
}

test_allow_tool_exec_path_deny_read if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ls`, `-l`, `/usr/bin/python3`])], "reads": [sample.path("/usr/bin/python3", ["system"])]}))
	sample.allowed(verdict, "tool.exec.path.deny")
}

test_allow_tool_exec_path_deny_listing if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ls`, `/usr/bin`])], "reads": [sample.path("/usr/bin", ["system"])], "writes": [sample.path("/workspace/programs", ["workspace"])]}))
	sample.allowed(verdict, "tool.exec.path.deny")
}
