package opensafe.bash_test

import data.opensafe.sample

test_block_tool_bash_network_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `evil.example.com`])], "hosts": [sample.host("evil.example.com", [])]}))
	sample.blocked_by(verdict, "tool.bash.network.deny")
}

test_block_tool_bash_network_deny_unknown_host if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, null])]}))
	sample.blocked_by(verdict, "tool.bash.network.deny")
}

test_block_tool_bash_network_deny_dev_tcp if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`echo`, `x`])], "hosts": [sample.host("evil.example.com", [])]}))
	sample.blocked_by(verdict, "tool.bash.network.deny")
}

test_allow_tool_bash_network_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `https://docs.python.org/3/`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.allowed(verdict, "tool.bash.network.deny")
}

test_block_tool_bash_network_deny_submodule if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `submodule`, `update`, `--init`])]))
	sample.blocked_by(verdict, "tool.bash.network.deny")
}

test_block_tool_bash_network_deny_remote if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `remote`, `update`])]))
	sample.blocked_by(verdict, "tool.bash.network.deny")
}

test_allow_tool_bash_network_deny_submodule if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `submodule`, `status`])]))
	sample.allowed(verdict, "tool.bash.network.deny")
}

test_allow_tool_exec_preload_deny_idle if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`git`, `rebase`, `--continue`]), {"assignments": {"GIT_EDITOR": "true"}})]))
	sample.allowed(verdict, "tool.exec.preload.deny")
}

test_allow_tool_exec_preload_deny_lines if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`read`, `-r`, `a`]), {"assignments": {"IFS": ","}})]))
	sample.allowed(verdict, "tool.exec.preload.deny")
}

test_block_tool_bash_network_deny_behind_settings if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `--no-pager`, `-c`, `color.ui=false`, `-C`, `lib`, `push`])]))
	sample.blocked_by(verdict, "tool.bash.network.deny")
}

test_allow_tool_bash_network_deny_behind_settings if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `-c`, `user.name=a`, `-c`, `user.email=b`, `commit`, `-m`, `push`])]))
	sample.allowed(verdict, "tool.bash.network.deny")
}

test_missing_tool_bash_network_deny if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`, `https://docs.python.org/3/`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/call/hosts/0/classes"))
	sample.blocked_by(verdict, "tool.bash.network.deny")
}

test_block_tool_bash_destructive_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`mkfs.ext4`, `/workspace/disk`])]))
	sample.blocked_by(verdict, "tool.bash.destructive.deny")
}

test_block_tool_bash_destructive_deny_root if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`rm`, `-rf`, `/`])], "deletes": [sample.path("/", [])]}))
	sample.blocked_by(verdict, "tool.bash.destructive.deny")
}

test_block_tool_bash_destructive_deny_workspace_itself if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`rm`, `-rf`, `/workspace`])], "deletes": [sample.path("/workspace", ["workspace"])]}))
	sample.blocked_by(verdict, "tool.bash.destructive.deny")
}

test_block_tool_bash_destructive_deny_device if {
	verdict := sample.judge("bash", sample.bash([sample.command([`dd`, `if=/workspace/a`, `of=/dev/sda`])]))
	sample.blocked_by(verdict, "tool.bash.destructive.deny")
}

test_allow_tool_bash_destructive_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`rm`, `-rf`, `build`])], "deletes": [sample.path("/workspace/build", ["workspace"])]}))
	sample.allowed(verdict, "tool.bash.destructive.deny")
}

test_allow_tool_bash_destructive_deny_null if {
	verdict := sample.judge("bash", sample.bash([sample.command([`dd`, `if=/workspace/a`, `of=/dev/null`])]))
	sample.allowed(verdict, "tool.bash.destructive.deny")
}

test_missing_tool_bash_destructive_deny if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`rm`, `-rf`, `build`])], "deletes": [sample.path("/workspace/build", ["workspace"])]}), "/call/deletes/0/classes"))
	sample.blocked_by(verdict, "tool.bash.destructive.deny")
}

test_allow_tool_bash_workspace_allow if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `test_suite.py`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_allow_tool_bash_workspace_allow_git if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `status`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_allow_tool_bash_workspace_allow_module if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `-m`, `pytest`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_allow_tool_bash_workspace_allow_node if {
	verdict := sample.judge("bash", sample.bash([sample.command([`node`, `file.js`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_allow_tool_bash_workspace_allow_npm if {
	verdict := sample.judge("bash", sample.bash([sample.command([`npm`, `test`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_allow_tool_bash_workspace_allow_version if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `--version`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_allow_tool_bash_workspace_allow_shell if {
	verdict := sample.judge("bash", sample.bash([sample.command([`bash`, `run.sh`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_allow_tool_bash_workspace_allow_interactive if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_allow_tool_bash_workspace_allow_git_elsewhere if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `-C`, `sub`, `status`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_allow_tool_bash_workspace_allow_git_no_pager if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `--no-pager`, `diff`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_allow_tool_bash_workspace_allow_perl if {
	verdict := sample.judge("bash", sample.bash([sample.command([`perl`, `-pe`, `s/a/b/`, `x.txt`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_allow_tool_bash_workspace_allow_unbuffered if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `-u`, `a.py`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_allow_tool_bash_workspace_allow_wrapped if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`make`]), {"via": ["env", "timeout"]})]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_allow_tool_bash_workspace_allow_assignment_only if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([""]), {"argv": [], "assignments": {"X": "1"}})]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_allow_tool_bash_workspace_allow_own_program if {
	verdict := sample.judge("bash", sample.bash([sample.command([`./run.sh`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_allow_tool_bash_workspace_allow_own_path if {
	verdict := sample.judge("bash", sample.bash([sample.command([`/workspace/app`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_block_default_deny_own_dots if {
	verdict := sample.judge("bash", sample.bash([sample.command([`./../tmp/x`])]))
	sample.blocked_by(verdict, "default.deny")
}

test_block_default_deny_foreign_path if {
	verdict := sample.judge("bash", sample.bash([sample.command([`/opt/x`])]))
	sample.blocked_by(verdict, "default.deny")
}

test_block_default_deny_git_option if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `-c`, `alias.x=!id`, `x`])]))
	sample.blocked_by(verdict, "default.deny")
}

test_block_default_deny_module if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `-m`, `http.server`])]))
	sample.blocked_by(verdict, "default.deny")
}

test_block_default_deny_module_late if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `-u`, `-m`, `http.server`])]))
	sample.blocked_by(verdict, "default.deny")
}

test_block_tool_bash_network_deny_push if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `-C`, `sub`, `push`])]))
	sample.blocked_by(verdict, "tool.bash.network.deny")
}

test_block_tool_bash_network_deny_clone_without_host if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `clone`, `https://docs.python.org/x.git`])]))
	sample.blocked_by(verdict, "tool.bash.network.deny")
}

test_allow_tool_bash_workspace_allow_clone if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`git`, `clone`, `https://docs.python.org/x.git`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_block_default_deny_wrapper if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`make`]), {"via": ["frobnicate"]})]))
	sample.blocked_by(verdict, "default.deny")
}

test_block_default_deny_no_command if {
	verdict := sample.judge("bash", sample.bash([]))
	sample.blocked_by(verdict, "default.deny")
}

test_block_tool_bash_workspace_allow if {
	verdict := sample.judge("bash", sample.bash([sample.command([`frobnicate`])]))
	not sample.named(verdict, "tool.bash.workspace.allow")
}

test_missing_tool_bash_workspace_allow if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`python3`, `test_suite.py`])]), "/call/commands/0/via"))
	sample.blocked_by(verdict, "default.deny")
}

test_allow_tool_exec_allowlist if {
	verdict := sample.judge("exec", sample.call("Exec", {"commands": [sample.command([`python3`, `test_suite.py`])]}))
	sample.allowed_by(verdict, "tool.exec.allowlist")
}

test_block_tool_exec_allowlist if {
	verdict := sample.judge("exec", sample.call("Exec", {"commands": [sample.command([`frobnicate`])]}))
	sample.blocked_by(verdict, "default.deny")
}

test_missing_tool_exec_allowlist if {
	verdict := sample.judge("exec", sample.without(sample.call("Exec", {"commands": [sample.command([`python3`, `test_suite.py`])]}), "/call/commands"))
	sample.blocked_by(verdict, "default.deny")
}

test_block_default_deny_behind_a_network_wrapper if {
	wrapped := sample.with_field(sample.command([`frobnicate`]), {"via": ["torsocks"]})
	verdict := sample.judge("bash", sample.call("Bash", {
		"commands": [sample.command([`npm`, `install`]), sample.command([`torsocks`]), wrapped],
		"hosts": [sample.host("docs.python.org", ["allowed"])],
	}))
	sample.blocked_by(verdict, "default.deny")
}

test_review_tool_bash_background_review if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`python3`, `srv.py`]), {"position": "background"})]))
	sample.reviewed_by(verdict, "tool.bash.background.review")
}

test_review_tool_bash_background_review_2 if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.with_field(sample.command([`python3`, `srv.py`]), {"position": "background"}), {"via": ["nohup"]})]))
	sample.reviewed_by(verdict, "tool.bash.background.review")
}

test_review_tool_bash_background_review_3 if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.with_field(sample.command([`python3`, `srv.py`]), {"position": "background"}), {"via": ["setsid"]}), sample.command([`wait`])]))
	sample.reviewed_by(verdict, "tool.bash.background.review")
}

test_allow_tool_bash_background_review if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`python3`, `srv.py`]), {"position": "background"}), sample.command([`wait`])]))
	sample.allowed(verdict, "tool.bash.background.review")
}

test_allow_tool_bash_background_review_2 if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`python3`, `srv.py`]), {"position": "background"}), sample.command([`pytest`]), sample.command([`kill`, `%1`])]))
	sample.allowed(verdict, "tool.bash.background.review")
}

test_allow_tool_bash_background_review_3 if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `srv.py`])]))
	sample.allowed(verdict, "tool.bash.background.review")
}

test_missing_tool_bash_background_review if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`make`])]), "/call/commands/0/position"))
	sample.reviewed_by(verdict, "tool.bash.background.review")
}

test_review_egress_upload_review if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `-T`, `a.txt`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.reviewed_by(verdict, "egress.upload.review")
}

test_review_egress_upload_review_2 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `-d`, `@a.txt`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.reviewed_by(verdict, "egress.upload.review")
}

test_review_egress_upload_review_3 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `--form=f=@a`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.reviewed_by(verdict, "egress.upload.review")
}

test_allow_egress_upload_review if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `-o`, `a.html`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.allowed(verdict, "egress.upload.review")
}

test_missing_egress_upload_review_argv if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`, `-T`, `a.txt`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/call/commands/0/argv"))
	sample.blocked_by(verdict, "tool.bash.network.deny")
}

test_block_tool_bash_destructive_deny_truncate if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`truncate`])], "writes": [sample.path("/etc/passwd", ["system"])]}))
	sample.blocked_by(verdict, "tool.bash.destructive.deny")
}

test_block_tool_write_vcs_deny_setting if {
	item := sample.command([`git`, `config`, `core.sshCommand`, `id`])
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [item], "opaque": true, "opaque_reasons": ["a setting"]}))
	sample.blocked_by(verdict, "tool.write.vcs.deny")
}

test_allow_tool_write_vcs_deny_setting if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `config`, `user.name`, `Dev`])]))
	sample.allowed(verdict, "tool.write.vcs.deny")
}

test_block_tool_bash_destructive_deny_work_tree if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `--work-tree=/`, `clean`, `-xfd`])]))
	sample.blocked_by(verdict, "tool.bash.destructive.deny")
}

test_allow_tool_bash_workspace_allow_own_module if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `-m`, `app`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_review_egress_upload_review_unknown_data if {
	question := sample.call("Bash", {
		"commands": [sample.command([`curl`, `--data`, null])],
		"hosts": [sample.host("docs.python.org", ["allowed"])],
	})
	sample.reviewed_by(sample.judge("bash", question), "egress.upload.review")
}

test_allow_tool_bash_network_deny_without_network if {
	every argv in [[`curl`, `--version`], [`openssl`, `dgst`, `-sha256`, `a`]] {
		sample.allowed(sample.judge("bash", sample.bash([sample.command(argv)])), "tool.bash.network.deny")
	}
}

test_block_tool_bash_network_deny_openssl if {
	verdict := sample.judge("bash", sample.bash([sample.command([`openssl`, `s_client`])]))
	sample.blocked_by(verdict, "tool.bash.network.deny")
}

test_allow_tool_bash_workspace_allow_git_setting if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `-c`, `user.name=x`, `commit`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_block_tool_bash_destructive_deny_device_write if {
	verdict := sample.judge("bash", sample.call("Bash", {
		"commands": [sample.command([`cat`, `x`])],
		"writes": [sample.path("/dev/sda", ["device"])],
	}))
	sample.blocked_by(verdict, "tool.bash.destructive.deny")
}

test_allow_tool_bash_destructive_deny_device_write if {
	verdict := sample.judge("bash", sample.call("Bash", {
		"commands": [sample.command([`cat`, `x`])],
		"writes": [sample.path("/dev/stdout", ["device", "stream"])],
	}))
	sample.allowed(verdict, "tool.bash.destructive.deny")
}

test_allow_tool_bash_network_deny_copy_here if {
	verdict := sample.judge("bash", sample.bash([sample.command([`rsync`, `-a`, `src/`, `/tmp/b/`])]))
	sample.allowed(verdict, "tool.bash.network.deny")
}

test_allow_tool_bash_workspace_allow_leading_options if {
	every argv in [
		[`npm`, `--prefix`, `web`, `run`, `build`], [`mvn`, `-q`, `-DskipTests`, `-pl`, `core`, `test`],
		[`git`, `--no-pager`, `log`], [`cargo`, `--color=always`, `test`],
	] {
		sample.allowed_by(sample.judge("bash", sample.bash([sample.command(argv)])), "tool.bash.workspace.allow")
	}
}

test_review_tool_exec_package_install_review_behind_options if {
	verdict := sample.judge("bash", sample.bash([sample.command([`npm`, `--prefix`, `run`, `install`])]))
	sample.reviewed_by(verdict, "tool.exec.package.install.review")
}

test_review_egress_upload_review_cluster if {
	item := sample.command([`curl`, `-sT`, `a.tar`, `https://docs.python.org/x`])
	verdict := sample.judge("bash", sample.call("Bash", {
		"commands": [item],
		"hosts": [sample.host("docs.python.org", ["allowed"])],
	}))
	sample.reviewed_by(verdict, "egress.upload.review")
}

test_allow_tool_bash_workspace_allow_compiled if {
	compile := sample.command([`gcc`, `-o`, `/tmp/a`, `a.c`])
	run := sample.with_field(sample.command([`/tmp/a`]), {"program": "a"})
	verdict := sample.judge("bash", sample.call("Bash", {
		"commands": [compile, run],
		"writes": [sample.path("/tmp/a", ["tmp"])],
	}))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_block_default_deny_not_compiled if {
	run := sample.with_field(sample.command([`/tmp/a`]), {"program": "a"})
	verdict := sample.judge("bash", sample.call("Bash", {
		"commands": [sample.command([`cp`, `x`, `/tmp/a`]), run],
		"writes": [sample.path("/tmp/a", ["tmp"])],
	}))
	sample.blocked_by(verdict, "default.deny")
}

test_allow_tool_bash_workspace_allow_code_behind_options if {
	verdict := sample.judge("bash", sample.bash([sample.command([`perl`, `-0777`, `-pi`, `-e`, `s/a/b/`, `x.txt`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}
