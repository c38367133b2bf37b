package opensafe.bash_test

import data.opensafe.sample

test_review_tool_bash_interpreter_review_submodule if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `submodule`, `--quiet`, `foreach`, `make`])]))
	sample.reviewed_by(verdict, "tool.bash.interpreter.review")
}

test_review_tool_bash_interpreter_review_cluster if {
	item := sample.command([`perl`, `-lane`, `system("id")`])
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [item], "opaque": true, "opaque_reasons": ["code"]}))
	sample.reviewed_by(verdict, "tool.bash.interpreter.review")
}

test_review_tool_bash_opaque_review if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`python3`, `test_suite.py`])], "opaque": true, "opaque_reasons": ["eval"]}))
	sample.reviewed_by(verdict, "tool.bash.opaque.review")
}

test_review_tool_bash_opaque_review_command if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`echo`, null]), {"opaque": true})]))
	sample.reviewed_by(verdict, "tool.bash.opaque.review")
}

test_review_tool_bash_opaque_review_pipe if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`base64`, `-d`]), {"position": "pipe"}), sample.with_field(sample.command([`bash`]), {"position": "pipe"})]))
	sample.reviewed_by(verdict, "tool.bash.opaque.review")
}

test_review_tool_bash_opaque_review_here_document if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`python3`, `-`]), {"redirects": [{"op": "<<", "fd": null, "target": null}]})]))
	sample.reviewed_by(verdict, "tool.bash.opaque.review")
}

test_allow_tool_bash_opaque_review if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`python3`, `a.py`]), {"position": "pipe"}), sample.with_field(sample.command([`grep`, `x`]), {"position": "pipe"})]))
	sample.allowed(verdict, "tool.bash.opaque.review")
}

test_missing_tool_bash_opaque_review if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`python3`, `test_suite.py`])]), "/call/opaque"))
	sample.blocked_by(verdict, "default.deny")
}

test_missing_tool_bash_opaque_review_command if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`python3`, `test_suite.py`])]), "/call/commands/0/opaque"))
	sample.blocked_by(verdict, "default.deny")
}

test_review_tool_bash_interpreter_review if {
	item := sample.command([`python3`, `-c`, `import socket`])
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [item], "opaque": true, "opaque_reasons": ["code"]}))
	sample.reviewed_by(verdict, "tool.bash.interpreter.review")
}

test_allow_tool_bash_interpreter_review_understood if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `-c`, `print("socket")`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_missing_tool_bash_interpreter_review_understood if {
	question := sample.without(sample.bash([sample.command([`python3`, `-c`, `import socket`])]), "/call/opaque")
	verdict := sample.judge("bash", question)
	sample.blocked_by(verdict, "default.deny")
}

test_review_tool_bash_interpreter_review_node if {
	item := sample.command([`node`, `-e`, `require('child_process')`])
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [item], "opaque": true, "opaque_reasons": ["code"]}))
	sample.reviewed_by(verdict, "tool.bash.interpreter.review")
}

test_review_tool_bash_interpreter_review_awk if {
	item := sample.command([`awk`, `BEGIN{system("id")}`])
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [item], "opaque": true, "opaque_reasons": ["code"]}))
	sample.reviewed_by(verdict, "tool.bash.interpreter.review")
}

test_review_tool_bash_interpreter_review_find if {
	verdict := sample.judge("bash", sample.bash([sample.command([`find`, `.`, `-fprint`, `x`])]))
	sample.reviewed_by(verdict, "tool.bash.interpreter.review")
}

test_review_tool_bash_interpreter_review_perl if {
	item := sample.command([`perl`, `-pe`, `system(1)`])
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [item], "opaque": true, "opaque_reasons": ["code"]}))
	sample.reviewed_by(verdict, "tool.bash.interpreter.review")
}

test_review_tool_bash_interpreter_review_git if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `diff`, `--ext-diff`])]))
	sample.reviewed_by(verdict, "tool.bash.interpreter.review")
}

test_review_tool_bash_interpreter_review_tar if {
	verdict := sample.judge("bash", sample.bash([sample.command([`tar`, `xf`, `a`, `--to-command=id`])]))
	sample.reviewed_by(verdict, "tool.bash.interpreter.review")
}

test_allow_tool_bash_interpreter_review if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `-c`, `print(1)`])]))
	sample.allowed(verdict, "tool.bash.interpreter.review")
}

test_allow_tool_bash_interpreter_review_awk if {
	verdict := sample.judge("bash", sample.bash([sample.command([`awk`, `{print $1}`])]))
	sample.allowed(verdict, "tool.bash.interpreter.review")
}

test_allow_tool_bash_interpreter_review_find if {
	verdict := sample.judge("bash", sample.bash([sample.command([`find`, `.`, `-name`, `*.py`])]))
	sample.allowed(verdict, "tool.bash.interpreter.review")
}

test_allow_tool_bash_interpreter_review_git if {
	verdict := sample.judge("bash", sample.bash([sample.command([`git`, `diff`])]))
	sample.allowed(verdict, "tool.bash.interpreter.review")
}

test_missing_tool_bash_interpreter_review if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`python3`, `-c`, `import socket`])]), "/call/commands/0/argv"))
	sample.blocked_by(verdict, "default.deny")
}

test_allow_tool_bash_opaque_review_here_document if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`python3`]), {"redirects": [{"op": "<<", "fd": null, "target": "print(1)"}]})]))
	sample.allowed(verdict, "tool.bash.opaque.review")
}

test_allow_tool_bash_opaque_review_here_document_shell if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`bash`]), {"redirects": [{"op": "<<", "fd": null, "target": "ls"}]})]))
	sample.allowed(verdict, "tool.bash.opaque.review")
}

test_review_tool_bash_interpreter_review_here_document if {
	item := sample.with_field(sample.command([`python3`]), {"redirects": [{"op": "<<", "fd": null, "target": "import socket"}]})
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [item], "opaque": true, "opaque_reasons": ["code"]}))
	sample.reviewed_by(verdict, "tool.bash.interpreter.review")
}

test_review_tool_bash_opaque_review_here_document_in_pipe if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`python3`]), {"position": "pipe", "redirects": [{"op": "<<", "fd": null, "target": "print(1)"}]})]))
	sample.reviewed_by(verdict, "tool.bash.opaque.review")
}

test_review_tool_bash_opaque_review_here_document_and_output if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`python3`]), {"redirects": [{"op": "<", "fd": null, "target": "a"}, {"op": ">", "fd": null, "target": "b"}]})]))
	sample.reviewed_by(verdict, "tool.bash.opaque.review")
}

test_allow_tool_bash_opaque_review_here_document_and_output if {
	verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([`python3`, `-`]), {"redirects": [{"op": "<<", "fd": null, "target": "print(1)"}, {"op": ">", "fd": null, "target": "b"}]})]))
	sample.allowed(verdict, "tool.bash.opaque.review")
}

test_review_tool_bash_interpreter_review_lua if {
	item := sample.command([`lua`, `-e`, `os.execute("id")`])
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [item], "opaque": true, "opaque_reasons": ["code"]}))
	sample.reviewed_by(verdict, "tool.bash.interpreter.review")
}

test_review_tool_bash_interpreter_review_sqlite if {
	verdict := sample.judge("bash", sample.bash([sample.command([`sqlite3`, `a.db`, `.shell id`])]))
	sample.reviewed_by(verdict, "tool.bash.interpreter.review")
}

test_review_tool_bash_opaque_review_streamed if {
	question := sample.call("Bash", {"commands": [sample.command([`python3`])], "stdin": true})
	sample.reviewed_by(sample.judge("bash", question), "tool.bash.opaque.review")
}

test_allow_tool_bash_opaque_review_streamed_to_a_script if {
	question := sample.call("Bash", {"commands": [sample.command([`python3`, `a.py`])], "stdin": true})
	sample.allowed(sample.judge("bash", question), "tool.bash.opaque.review")
}

test_missing_tool_bash_opaque_review_streamed if {
	question := sample.bash([sample.command([`python3`])])
	sample.reviewed_by(sample.judge("bash", sample.without(question, "/call/stdin")), "tool.bash.opaque.review")
}

test_review_tool_bash_interpreter_review_git if {
	every argv in [
		[`git`, `rebase`, `-x`, `id`, `HEAD~1`], [`git`, `grep`, `-Oid`, `x`],
		[`git`, `difftool`, `-x`, `id`], [`git`, `submodule`, `foreach`, `id`],
	] {
		verdict := sample.judge("bash", sample.bash([sample.command(argv)]))
		sample.fired(verdict, "tool.bash.interpreter.review", "review")
	}
}

test_allow_tool_bash_interpreter_review_git if {
	every argv in [[`git`, `cherry-pick`, `-x`, `3f2a91c`], [`git`, `clean`, `-n`, `-x`], [`git`, `diff`, `-Oorder`]] {
		verdict := sample.judge("bash", sample.bash([sample.command(argv)]))
		sample.allowed(verdict, "tool.bash.interpreter.review")
	}
}

test_review_tool_bash_interpreter_review_setting if {
	every argv in [
		[`git`, `-c`, `core.fsmonitor=./m`, `status`], [`git`, `-c`, `alias.x=!id`, `status`], [`make`, `SHELL=./x`, `all`],
		[`git`, `-c`, `Core.SSHCommand=./m`, `fetch`], [`git`, `-c`, `filter.Clean=./m`, `add`], [`make`, `.SHELLFLAGS=-c`, `all`],
	] {
		question := sample.call("Bash", {"commands": [sample.command(argv)], "opaque": true, "opaque_reasons": ["a setting"]})
		sample.fired(sample.judge("bash", question), "tool.bash.interpreter.review", "review")
	}
}

test_allow_tool_bash_interpreter_review_setting if {
	every argv in [[`git`, `-c`, `core.pager=cat`, `log`], [`make`, `CC=gcc`, `all`]] {
		sample.allowed(sample.judge("bash", sample.bash([sample.command(argv)])), "tool.bash.interpreter.review")
	}
}

test_silent_tool_bash_interpreter_review_setting if {
	every argv in [
		[`git`, `-c`, `user.name=a.cmd`, `add`], [`git`, `-c`, `a-b.cmd=./m`, `add`], [`git`, `a.cmd`, `add`],
		[`make`, `XSHELL=./x`, `all`], [`tar`, `SHELL=./x`],
	] {
		question := sample.call("Bash", {"commands": [sample.command(argv)], "opaque": true, "opaque_reasons": ["a setting"]})
		verdict := sample.judge("bash", question)
		every hit in verdict.rules { hit.id != "tool.bash.interpreter.review" }
	}
}

test_missing_tool_bash_interpreter_review_setting if {
	item := sample.command([`git`, `-c`, `core.pager=x`, `log`])
	verdict := sample.judge("bash", sample.without(sample.bash([item]), "/call/opaque"))
	sample.fired(verdict, "tool.bash.interpreter.review", "review")
}

test_review_tool_bash_opaque_review_pipe_without_words if {
	every name in [`python3`, `node`, `perl`] {
		verdict := sample.judge("bash", sample.bash([sample.with_field(sample.command([name]), {"position": "pipe"})]))
		sample.reviewed_by(verdict, "tool.bash.opaque.review")
	}
}

test_allow_tool_bash_opaque_review_version if {
	item := sample.with_field(sample.command([`java`, `-version`]), {"position": "pipe"})
	sample.allowed(sample.judge("bash", sample.bash([item])), "tool.bash.opaque.review")
}

test_allow_tool_bash_interpreter_review_behind_dashes if {
	verdict := sample.judge("bash", sample.bash([sample.command([`cargo`, `run`, `--`, `--config`, `a.toml`])]))
	sample.allowed_by(verdict, "tool.bash.workspace.allow")
}

test_review_tool_bash_interpreter_review_before_dashes if {
	verdict := sample.judge("bash", sample.bash([sample.command([`cargo`, `--config`, `a.toml`, `run`, `--`, `x`])]))
	sample.reviewed_by(verdict, "tool.bash.interpreter.review")
}
