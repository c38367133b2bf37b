package opensafe.program_test

import data.opensafe.sample

test_block_tool_exec_sudo_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`sudo`, `x`])]))
	sample.blocked_by(verdict, "tool.exec.sudo.deny")
}

test_block_tool_exec_sudo_deny_wrapper if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`id`]), {"via": ["sudo"]})]))
	sample.blocked_by(verdict, "tool.exec.sudo.deny")
}

test_allow_tool_exec_sudo_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`id`])]))
	sample.allowed(verdict, "tool.exec.sudo.deny")
}

test_missing_tool_exec_sudo_deny if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`sudo`, `x`])]), "/call/commands/0/program"))
	sample.blocked_by(verdict, "default.deny")
}

test_block_tool_exec_namespace_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`unshare`, `x`])]))
	sample.blocked_by(verdict, "tool.exec.namespace.deny")
}

test_block_tool_exec_namespace_deny_wrapper if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`id`]), {"via": ["unshare"]})]))
	sample.blocked_by(verdict, "tool.exec.namespace.deny")
}

test_allow_tool_exec_namespace_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`ls`, `/workspace`])]))
	sample.allowed(verdict, "tool.exec.namespace.deny")
}

test_missing_tool_exec_namespace_deny if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`unshare`, `x`])]), "/call/commands/0/program"))
	sample.blocked_by(verdict, "default.deny")
}

test_block_tool_exec_kernel_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`insmod`, `x`])]))
	sample.blocked_by(verdict, "tool.exec.kernel.deny")
}

test_block_tool_exec_kernel_deny_wrapper if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`id`]), {"via": ["insmod"]})]))
	sample.blocked_by(verdict, "tool.exec.kernel.deny")
}

test_allow_tool_exec_kernel_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`uname`, `-a`])]))
	sample.allowed(verdict, "tool.exec.kernel.deny")
}

test_missing_tool_exec_kernel_deny if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`insmod`, `x`])]), "/call/commands/0/program"))
	sample.blocked_by(verdict, "default.deny")
}

test_block_tool_exec_container_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`docker`, `x`])]))
	sample.blocked_by(verdict, "tool.exec.container.deny")
}

test_block_tool_exec_container_deny_wrapper if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`id`]), {"via": ["docker"]})]))
	sample.blocked_by(verdict, "tool.exec.container.deny")
}

test_allow_tool_exec_container_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`make`, `container`])]))
	sample.allowed(verdict, "tool.exec.container.deny")
}

test_missing_tool_exec_container_deny if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`docker`, `x`])]), "/call/commands/0/program"))
	sample.blocked_by(verdict, "default.deny")
}

test_block_tool_exec_debugger_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`gdb`, `x`])]))
	sample.blocked_by(verdict, "tool.exec.debugger.deny")
}

test_block_tool_exec_debugger_deny_2 if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`id`]), {"via": ["gdb"]})]))
	sample.blocked_by(verdict, "tool.exec.debugger.deny")
}

test_allow_tool_exec_debugger_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `test.py`])]))
	sample.allowed(verdict, "tool.exec.debugger.deny")
}

test_missing_tool_exec_debugger_deny if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`gdb`])]), "/call/commands/0/program"))
	sample.blocked_by(verdict, "default.deny")
}

test_block_tool_exec_scanner_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`nmap`, `x`])]))
	sample.blocked_by(verdict, "tool.exec.scanner.deny")
}

test_block_tool_exec_scanner_deny_2 if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`id`]), {"via": ["nmap"]})]))
	sample.blocked_by(verdict, "tool.exec.scanner.deny")
}

test_allow_tool_exec_scanner_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`grep`, `-rn`, `nmap`])]))
	sample.allowed(verdict, "tool.exec.scanner.deny")
}

test_missing_tool_exec_scanner_deny if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`nmap`])]), "/call/commands/0/program"))
	sample.blocked_by(verdict, "default.deny")
}

test_block_tool_exec_persistence_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`crontab`, `-e`])]))
	sample.blocked_by(verdict, "tool.exec.persistence.deny")
}

test_block_tool_exec_persistence_deny_2 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`tee`])], "writes": [sample.path("/etc/cron.d/x", ["system", "persistence"])]}))
	sample.blocked_by(verdict, "tool.exec.persistence.deny")
}

test_allow_tool_exec_persistence_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`date`])]))
	sample.allowed(verdict, "tool.exec.persistence.deny")
}

test_allow_tool_exec_persistence_deny_2 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`tee`])], "writes": [sample.path("/workspace/cron.md", ["workspace"])]}))
	sample.allowed(verdict, "tool.exec.persistence.deny")
}

test_missing_tool_exec_persistence_deny if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`tee`])], "writes": [sample.path("/workspace/x", ["workspace"])]}), "/call/writes/0/classes"))
	sample.blocked_by(verdict, "tool.exec.persistence.deny")
}

test_block_tool_exec_miner_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`xmrig`, `-o`, `pool`])]))
	sample.blocked_by(verdict, "tool.exec.miner.deny")
}

test_block_tool_exec_miner_deny_2 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`./job`])], "hosts": [object.union(sample.host("pool.example.com", []), {"scheme": "stratum+tcp"})]}))
	sample.blocked_by(verdict, "tool.exec.miner.deny")
}

test_allow_tool_exec_miner_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`make`, `miner`])]))
	sample.allowed(verdict, "tool.exec.miner.deny")
}

test_allow_tool_exec_miner_deny_2 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`])], "hosts": [object.union(sample.host("docs.python.org", ["allowed"]), {"scheme": null})]}))
	sample.allowed(verdict, "tool.exec.miner.deny")
}

test_missing_tool_exec_miner_deny if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/call/hosts/0/scheme"))
	sample.blocked_by(verdict, "tool.exec.miner.deny")
}

test_block_tool_bash_history_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`history`, `-c`])]))
	sample.blocked_by(verdict, "tool.bash.history.deny")
}

test_block_tool_bash_history_deny_2 if {
	verdict := sample.judge("bash", sample.bash([sample.command([`unset`, `HISTFILE`])]))
	sample.blocked_by(verdict, "tool.bash.history.deny")
}

test_block_tool_bash_history_deny_3 if {
	verdict := sample.judge("bash", sample.bash([sample.command([`set`, `+o`, `history`])]))
	sample.blocked_by(verdict, "tool.bash.history.deny")
}

test_block_tool_bash_history_deny_4 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`rm`, `x`])], "deletes": [sample.path("/workspace/.bash_history", ["workspace", "history"])]}))
	sample.blocked_by(verdict, "tool.bash.history.deny")
}

test_block_tool_bash_history_deny_5 if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`ls`]), {"assignments": {"HISTFILE": "/dev/null"}})]))
	sample.blocked_by(verdict, "tool.bash.history.deny")
}

test_allow_tool_bash_history_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`set`, `-e`])]))
	sample.allowed(verdict, "tool.bash.history.deny")
}

test_allow_tool_bash_history_deny_2 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`rm`, `x`])], "deletes": [sample.path("/workspace/x", ["workspace"])]}))
	sample.allowed(verdict, "tool.bash.history.deny")
}

test_missing_tool_bash_history_deny if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`rm`, `x`])], "deletes": [sample.path("/workspace/x", ["workspace"])]}), "/call/deletes/0/classes"))
	sample.blocked_by(verdict, "tool.bash.history.deny")
}

test_block_tool_bash_destructive_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`wipefs`, `x`])]))
	sample.blocked_by(verdict, "tool.bash.destructive.deny")
}

test_allow_tool_bash_destructive_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`df`])]))
	sample.allowed(verdict, "tool.bash.destructive.deny")
}

test_missing_tool_bash_destructive_deny if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`wipefs`])]), "/call/commands/0/program"))
	sample.blocked_by(verdict, "default.deny")
}

test_block_tool_exec_kernel_deny_setting if {
	every name in ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/power/state"] {
		verdict := sample.judge("bash", sample.call("Bash", {
			"commands": [sample.command([`echo`, `1`])],
			"writes": [sample.path(name, ["system"])],
		}))
		sample.blocked_by(verdict, "tool.exec.kernel.deny")
	}
}

test_allow_tool_exec_kernel_deny_setting if {
	verdict := sample.judge("bash", sample.call("Bash", {
		"commands": [sample.command([`echo`, `1`])],
		"writes": [sample.path("/workspace/sys/x", ["workspace"])],
	}))
	sample.allowed(verdict, "tool.exec.kernel.deny")
}
