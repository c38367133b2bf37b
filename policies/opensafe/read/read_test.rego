package opensafe.read_test

import data.opensafe.sample

test_block_tool_read_secrets_block if {
	verdict := sample.judge("read", sample.call("Read", {"reads": [sample.path("/etc/shadow", ["system", "secret"])]}))
	sample.blocked_by(verdict, "tool.read.secrets.block")
}

test_block_tool_read_secrets_block_operand if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`cat`, `/etc/shadow`])], "reads": [sample.path("/etc/shadow", ["system", "secret"])]}))
	sample.blocked_by(verdict, "tool.read.secrets.block")
}

test_block_tool_read_secrets_block_list if {
	verdict := sample.judge("list", sample.call("List", {"reads": [sample.path("/etc/shadow", ["system", "secret"])]}))
	sample.blocked_by(verdict, "tool.read.secrets.block")
}

test_allow_tool_read_secrets_block if {
	verdict := sample.judge("read", sample.call("Read", {"reads": [sample.path("/workspace/README.md", ["workspace"])]}))
	sample.allowed(verdict, "tool.read.secrets.block")
}

test_missing_tool_read_secrets_block if {
	verdict := sample.judge("read", sample.without(sample.call("Read", {"reads": [sample.path("/workspace/README.md", ["workspace"])]}), "/call/reads/0/classes"))
	sample.blocked_by(verdict, "tool.read.secrets.block")
}

test_block_tool_read_proc_deny if {
	verdict := sample.judge("read", sample.call("Read", {"reads": [sample.path("/proc/1/environ", ["system", "proc"])]}))
	sample.blocked_by(verdict, "tool.read.proc.deny")
}

test_block_tool_read_proc_deny_operand if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`cat`, `/proc/1/environ`])], "reads": [sample.path("/proc/1/environ", ["system", "proc"])]}))
	sample.blocked_by(verdict, "tool.read.proc.deny")
}

test_block_tool_read_proc_deny_list if {
	verdict := sample.judge("list", sample.call("List", {"reads": [sample.path("/proc/1/environ", ["system", "proc"])]}))
	sample.blocked_by(verdict, "tool.read.proc.deny")
}

test_allow_tool_read_proc_deny if {
	verdict := sample.judge("read", sample.call("Read", {"reads": [sample.path("/workspace/README.md", ["workspace"])]}))
	sample.allowed(verdict, "tool.read.proc.deny")
}

test_missing_tool_read_proc_deny if {
	verdict := sample.judge("read", sample.without(sample.call("Read", {"reads": [sample.path("/workspace/README.md", ["workspace"])]}), "/call/reads/0/classes"))
	sample.blocked_by(verdict, "tool.read.proc.deny")
}

test_block_tool_read_device_deny if {
	verdict := sample.judge("read", sample.call("Read", {"reads": [sample.path("/dev/sda", ["device"])]}))
	sample.blocked_by(verdict, "tool.read.device.deny")
}

test_block_tool_read_device_deny_operand if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`cat`, `/dev/sda`])], "reads": [sample.path("/dev/sda", ["device"])]}))
	sample.blocked_by(verdict, "tool.read.device.deny")
}

test_block_tool_read_device_deny_list if {
	verdict := sample.judge("list", sample.call("List", {"reads": [sample.path("/dev/sda", ["device"])]}))
	sample.blocked_by(verdict, "tool.read.device.deny")
}

test_allow_tool_read_device_deny if {
	verdict := sample.judge("read", sample.call("Read", {"reads": [sample.path("/workspace/README.md", ["workspace"])]}))
	sample.allowed(verdict, "tool.read.device.deny")
}

test_missing_tool_read_device_deny if {
	verdict := sample.judge("read", sample.without(sample.call("Read", {"reads": [sample.path("/workspace/README.md", ["workspace"])]}), "/call/reads/0/classes"))
	sample.blocked_by(verdict, "tool.read.device.deny")
}

test_block_tool_read_history_block if {
	verdict := sample.judge("read", sample.call("Read", {"reads": [sample.path("/workspace/.bash_history", ["workspace", "history"])]}))
	sample.blocked_by(verdict, "tool.read.history.block")
}

test_block_tool_read_history_block_operand if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`cat`, `/workspace/.bash_history`])], "reads": [sample.path("/workspace/.bash_history", ["workspace", "history"])]}))
	sample.blocked_by(verdict, "tool.read.history.block")
}

test_block_tool_read_history_block_list if {
	verdict := sample.judge("list", sample.call("List", {"reads": [sample.path("/workspace/.bash_history", ["workspace", "history"])]}))
	sample.blocked_by(verdict, "tool.read.history.block")
}

test_allow_tool_read_history_block if {
	verdict := sample.judge("read", sample.call("Read", {"reads": [sample.path("/workspace/README.md", ["workspace"])]}))
	sample.allowed(verdict, "tool.read.history.block")
}

test_missing_tool_read_history_block if {
	verdict := sample.judge("read", sample.without(sample.call("Read", {"reads": [sample.path("/workspace/README.md", ["workspace"])]}), "/call/reads/0/classes"))
	sample.blocked_by(verdict, "tool.read.history.block")
}

test_allow_tool_read_device_deny_null if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`cat`, `/dev/null`])], "reads": [sample.path("/dev/null", ["device", "stream"])]}))
	sample.allowed(verdict, "tool.read.device.deny")
}

test_allow_tool_read_workspace_allow if {
	verdict := sample.judge("read", sample.call("Read", {"reads": [sample.path("/workspace/README.md", ["workspace"])]}))
	sample.allowed_by(verdict, "tool.read.workspace.allow")
}

test_allow_tool_read_workspace_allow_tmp if {
	verdict := sample.judge("read", sample.call("Read", {"reads": [sample.path("/tmp/a", ["tmp"])]}))
	sample.allowed_by(verdict, "tool.read.workspace.allow")
}

test_block_tool_read_workspace_allow if {
	verdict := sample.judge("read", sample.call("Read", {"reads": [sample.path("/etc/hostname", ["system"])]}))
	sample.blocked_by(verdict, "default.deny")
}

test_missing_tool_read_workspace_allow if {
	verdict := sample.judge("read", sample.without(sample.call("Read", {"reads": [sample.path("/workspace/README.md", ["workspace"])]}), "/call/reads"))
	sample.blocked_by(verdict, "default.deny")
}

test_allow_tool_list_workspace_allow if {
	verdict := sample.judge("list", sample.call("List", {"reads": [sample.path("/workspace", ["workspace"])]}))
	sample.allowed_by(verdict, "tool.list.workspace.allow")
}

test_block_tool_list_workspace_allow if {
	verdict := sample.judge("list", sample.call("List", {"reads": [sample.path("/etc", ["system"])]}))
	sample.blocked_by(verdict, "default.deny")
}

test_missing_tool_list_workspace_allow if {
	verdict := sample.judge("list", sample.without(sample.call("List", {"reads": [sample.path("/workspace", ["workspace"])]}), "/call/reads"))
	sample.blocked_by(verdict, "default.deny")
}

test_allow_default_deny_system if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`cat`, `/usr/include/stdio.h`])], "reads": [sample.path("/usr/include/stdio.h", ["system"])]}))
	sample.allowed(verdict, "default.deny")
}

test_allow_default_deny_root if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`ls`, `/`])], "reads": [sample.path("/", [])]}))
	sample.allowed(verdict, "default.deny")
}

test_block_default_deny_elsewhere if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`cat`, `/data/x`])], "reads": [sample.path("/data/x", [])]}))
	sample.blocked_by(verdict, "default.deny")
}

test_block_tool_read_size_limit if {
	verdict := sample.judge("read", sample.call("Read", {"arguments": {"length": 1000000000000}, "reads": [sample.path("/workspace/a", ["workspace"])]}))
	sample.blocked_by(verdict, "tool.read.size.limit")
}

test_block_tool_read_size_limit_2 if {
	verdict := sample.judge("read", sample.call("Read", {"arguments": {"length": -1}, "reads": [sample.path("/workspace/a", ["workspace"])]}))
	sample.blocked_by(verdict, "tool.read.size.limit")
}

test_allow_tool_read_size_limit if {
	verdict := sample.judge("read", sample.call("Read", {"arguments": {"length": 100}, "reads": [sample.path("/workspace/a", ["workspace"])]}))
	sample.allowed(verdict, "tool.read.size.limit")
}

test_allow_tool_read_size_limit_2 if {
	verdict := sample.judge("read", sample.call("Read", {"arguments": {}, "reads": [sample.path("/workspace/a", ["workspace"])]}))
	sample.allowed(verdict, "tool.read.size.limit")
}

test_missing_tool_read_size_limit if {
	verdict := sample.judge("read", sample.without(sample.call("Read", {"arguments": {}, "reads": [sample.path("/workspace/a", ["workspace"])]}), "/call/arguments"))
	sample.blocked_by(verdict, "tool.read.size.limit")
}
