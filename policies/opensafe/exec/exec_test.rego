package opensafe.exec_test

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

test_block_tool_exec_package_script_deny if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`curl`, `docs.python.org`]), {"position": "pipe"}), sample.with_field(sample.command([`sh`]), {"position": "pipe"})]))
	sample.blocked_by(verdict, "tool.exec.package.script.deny")
}

test_block_tool_exec_package_script_deny_eval if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`curl`, `docs.python.org`]), {"position": "substitution"}), sample.with_field(sample.command([`eval`, null]), {"opaque": true})]))
	sample.blocked_by(verdict, "tool.exec.package.script.deny")
}

test_block_tool_exec_package_script_deny_process_substitution if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`curl`, `docs.python.org`]), {"position": "substitution"}), sample.command([`bash`, `/dev/fd/63`])]))
	sample.blocked_by(verdict, "tool.exec.package.script.deny")
}

test_block_tool_exec_package_script_deny_shell_wrapper if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`wget`, `docs.python.org`]), {"position": "substitution"}), sample.with_field(sample.command([`id`]), {"via": ["sh"]})]))
	sample.blocked_by(verdict, "tool.exec.package.script.deny")
}

test_allow_tool_exec_package_script_deny if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`cat`, `a.txt`]), {"position": "pipe"}), sample.with_field(sample.command([`grep`, `x`]), {"position": "pipe"})]))
	sample.allowed(verdict, "tool.exec.package.script.deny")
}

test_block_tool_exec_package_script_deny_interpreter if {
	verdict := sample.judge("bash", sample.bash([sample.command([`wget`, `docs.python.org`]), sample.with_field(sample.command([`python3`, `-`]), {"position": "pipe"})]))
	sample.blocked_by(verdict, "tool.exec.package.script.deny")
}

test_missing_tool_exec_package_script_deny if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.with_field(sample.command([`curl`, `docs.python.org`]), {"position": "pipe"}), sample.with_field(sample.command([`sh`]), {"position": "pipe"})]), "/call/commands/1/position"))
	sample.blocked_by(verdict, "tool.bash.network.deny")
}

test_block_tool_exec_package_script_deny_eval_wrapper if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`curl`, `docs.python.org`]), {"position": "substitution"}), sample.with_field(sample.command([`id`]), {"via": ["eval"]})]))
	sample.blocked_by(verdict, "tool.exec.package.script.deny")
}

test_block_tool_exec_preload_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`python3`, `test_suite.py`])], "env": {"LD_PRELOAD": "/workspace/x.so"}}))
	sample.blocked_by(verdict, "tool.exec.preload.deny")
}

test_block_tool_exec_preload_deny_assignment if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`python3`, `test_suite.py`]), {"assignments": {"BASH_ENV": null}})]))
	sample.blocked_by(verdict, "tool.exec.preload.deny")
}

test_block_tool_exec_preload_deny_export if {
	verdict := sample.judge("bash", sample.bash([sample.command([`export`, `LD_PRELOAD=/workspace/x.so`])]))
	sample.blocked_by(verdict, "tool.exec.preload.deny")
}

test_allow_tool_exec_preload_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`python3`, `test_suite.py`])], "env": {"LANG": "C.UTF-8"}}))
	sample.allowed(verdict, "tool.exec.preload.deny")
}

test_missing_tool_exec_preload_deny if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`python3`, `test_suite.py`])]), "/call/env"))
	sample.blocked_by(verdict, "default.deny")
}

test_review_tool_exec_package_install_review if {
	verdict := sample.judge("bash", sample.bash([sample.command([`npm`, `install`])]))
	sample.reviewed_by(verdict, "tool.exec.package.install.review")
}

test_review_tool_exec_package_install_review_module if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `-m`, `pip`, `install`, `x`])]))
	sample.reviewed_by(verdict, "tool.exec.package.install.review")
}

test_review_tool_exec_package_install_review_always if {
	verdict := sample.judge("bash", sample.bash([sample.command([`npx`, `cowsay`])]))
	sample.reviewed_by(verdict, "tool.exec.package.install.review")
}

test_review_tool_exec_package_install_review_bare if {
	verdict := sample.judge("bash", sample.bash([sample.command([`yarn`])]))
	sample.reviewed_by(verdict, "tool.exec.package.install.review")
}

test_review_tool_exec_package_install_review_wrapper if {
	verdict := sample.judge("bash", sample.bash([sample.command([`npx`, `thing`]), sample.with_field(sample.command([`thing`]), {"via": ["npx"]})]))
	sample.reviewed_by(verdict, "tool.exec.package.install.review")
}

test_allow_tool_exec_package_install_review if {
	verdict := sample.judge("bash", sample.bash([sample.command([`npm`, `test`])]))
	sample.allowed(verdict, "tool.exec.package.install.review")
}

test_allow_tool_exec_package_install_review_list if {
	verdict := sample.judge("bash", sample.bash([sample.command([`pip`, `list`])]))
	sample.allowed(verdict, "tool.exec.package.install.review")
}

test_missing_tool_exec_package_install_review if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`npm`, `install`])]), "/call/commands/0/argv"))
	sample.blocked_by(verdict, "default.deny")
}

test_block_default_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`frobnicate`])]))
	sample.blocked_by(verdict, "default.deny")
}

test_allow_default_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `test_suite.py`])]))
	sample.allowed(verdict, "default.deny")
}

test_missing_default_deny if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`python3`, `test_suite.py`])]), "/call/hosts"))
	sample.blocked_by(verdict, "default.deny")
}

test_missing_default_deny_commands if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`python3`, `test_suite.py`])]), "/call/commands"))
	sample.blocked_by(verdict, "default.deny")
}
