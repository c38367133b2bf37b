# METADATA
# title: Commands
# description: What a call's commands are, asked once and shared by the bash, exec and egress rules.
package opensafe.command

import data.opensafe.config

# METADATA
# title: Names
# description: Every program that runs, wrappers (sudo, env, sh -c …) included.
names contains name if some name in input.call.commands[_].via

names contains name if some name in [command.program | some command in input.call.commands]

# METADATA
# title: Denied
# description: The programs of the call that the site denies, by class.
denied[class] contains name if {
	some name in names
	class := config.programs.denied[name]
}

# METADATA
# title: Variables
# description: Every environment variable that the call sets or unsets.
variables contains name if {
	some name, _ in input.call.env
	not _by_value(name)
}

variables contains name if {
	some item in input.call.commands
	some name, _ in item.assignments
	not _splits_lines(item, name)
	not _by_value(name)
}

variables contains split(argument, "=")[0] if {
	some item in input.call.commands
	item.program in {"export", "declare", "typeset", "local", "readonly", "env", "unset"}
	some argument in item.argv
	is_string(argument)
	not _by_value(split(argument, "=")[0])
}

# `IFS=, read -r a b`: gone with the line that was read.
_splits_lines(item, "IFS") if item.program in {"mapfile", "read", "readarray"}

# `GIT_EDITOR=true`, `NODE_OPTIONS=--max-old-space-size=4096`: any value that may start or load something is opaque.
_by_value(name) if {
	name in {
		"EDITOR", "GIT_EDITOR", "GIT_PAGER", "GIT_SEQUENCE_EDITOR", "GOFLAGS", "JAVA_TOOL_OPTIONS", "MAKEFLAGS", "MANPAGER",
		"NODE_OPTIONS", "PAGER", "PERL5LIB", "PYTHONWARNINGS", "RUBYLIB", "RUBYOPT", "VISUAL",
	}
	input.call.opaque == false
}

# METADATA
# title: Talks
# description: The call names a host or runs a program that may reach one.
talks if count(input.call.hosts) > 0

talks if {
	some item in input.call.commands
	config.programs.network[item.program]
}

talks if {
	some item in input.call.commands
	remote(item)
}

# METADATA
# title: Remote
# description: A subcommand that talks to another host (`git push`).
remote(command) if {
	verbs := config.programs.remote[command.program]
	verbs[verb(command)]
}

remote(command) if {
	command.program == "git"
	verb(command) == "submodule"
	some argument in command.argv
	argument in {"add", "update"}
}

remote(command) if {
	command.program == "git"
	verb(command) == "remote"
	some argument in command.argv
	argument in {"prune", "show", "update"}
}

# METADATA
# title: Listed
# description: All facts that command rules read are there. Without them nothing is allowed.
listed if {
	is_array(input.call.commands)
	is_array(input.call.reads)
	is_array(input.call.writes)
	is_array(input.call.deletes)
	is_array(input.call.hosts)
	is_object(input.call.env)
	input.call.opaque in {true, false}
}

# METADATA
# title: Everyday
# description: >-
#   The positions of the commands that are everyday development work and need nobody's attention, found once for the
#   rules that allow and those that deny.
everyday contains at if {
	some at, item in input.call.commands
	_plain(item)
	_usual(item)
	not inline[at]
	not installs(item)
}

everyday contains at if {
	some at, item in input.call.commands
	networked(item)
}

# Assignments and redirections without a program.
everyday contains at if {
	some at, item in input.call.commands
	item.program == ""
	item.argv == []
	item.opaque == false
}

_usual(command) if config.programs.ordinary[command.program]

_usual(command) if _local_tool(command)

# What npx starts, where npx itself is ordinary.
_usual(command) if {
	"npx" in command.via
	config.programs.local_tools[command.program]
}

_usual(command) if {
	verbs := config.programs.subcommands[command.program]
	verbs[verb(command)]
}

_usual(command) if {
	remote(command)
	hosts_granted
}

_usual(command) if {
	config.programs.interpreters[command.program]
	_runs_file_or_module(command)
	not from_stdin(command)
}

# A program that the same call compiles.
_usual(command) if {
	some path in input.call.writes
	path.path == command.argv[0]
	path.classes.tmp == true
	some item in input.call.commands
	item.program in {"c++", "cc", "clang", "clang++", "g++", "gcc", "go", "ld", "rustc"}
}

# The workspace's own programs, by path: as ordinary as a script of the workspace.
_usual(command) if _own(command.argv[0])

# METADATA
# title: Networked
# description: A network program all of whose operands are known and whose hosts are granted.
networked(command) if {
	_plain(command)
	config.programs.network[command.program]
	hosts_granted
}

# What talks to nobody: a question for the version, and subcommands that only compute (`openssl dgst`).
networked(command) if {
	_plain(command)
	config.programs.network[command.program]
	count(command.argv) == 2
	command.argv[1] in {"--version", "--help", "-V"}
}

# A copy from one place here to another.
networked(command) if {
	command.program == "rsync"
	_plain(command)
	count(input.call.hosts) == 0
	input.call.opaque == false
}

networked(command) if {
	_plain(command)
	config.programs.subcommands[command.program][verb(command)]
	config.programs.network[command.program]
	count(input.call.hosts) == 0
}

# METADATA
# title: Hosts granted
# description: The call names at least one host, and each is on the allow list.
hosts_granted if {
	count(input.call.hosts) > 0
	every host in input.call.hosts { host.classes.allowed == true }
}

# METADATA
# title: Installs
# description: The command fetches and runs code of others through a package manager.
installs(command) if {
	config.programs.install_always[command.program]
	not _local_tool(command)
}

# `npx tsc`: a development tool that a project has among its own packages; what else npx runs it may fetch first.
_local_tool(command) if {
	command.program == "npx"
	some at in [_tool_at(command)]
	_in_project(command, at)
	every option in array.slice(command.argv, 1, at) { option in _npx_options }
}

_npx_options := {"--no", "--no-install", "--offline", "--quiet", "-q"}

_in_project(command, at) if config.programs.local_tools[command.argv[at]]

_in_project(command, at) if {
	contains(command.argv[at], "@") == false
	some option in array.slice(command.argv, 1, at)
	option in {"--no", "--no-install", "--offline"}
}

_tool_at(command) := [at |
	some at, argument in array.slice(command.argv, 0, 16)
	at > 0
	not startswith(argument, "-")
][0]

installs(command) if {
	verbs := config.programs.install[command.program]
	some argument in command.argv
	verbs[argument]
}

# `python -m pip install`.
installs(command) if {
	config.programs.interpreters[command.program]
	verbs := config.programs.install[command.argv[_module_at(command)]]
	some argument in command.argv
	verbs[argument]
}

# `python setup.py install`.
installs(command) if {
	config.programs.interpreters[command.program]
	command.argv[1] == "setup.py"
	command.argv[2] in {"develop", "install"}
}

# `yarn` alone installs.
installs(command) if {
	config.programs.install[command.program].install
	command.program == "yarn"
	count(command.argv) == 1
}

# METADATA
# title: Inline
# description: >-
#   The positions of the commands that carry code of their own that calls processes or the network, or hand over to
#   another program.
inline contains at if {
	some at, item in input.call.commands
	_inline(item)
}

_inline(command) if {
	options := config.programs.escapes[command.program]
	some at, argument in command.argv
	is_string(argument)
	options[split(argument, "=")[0]]
	not "--" in array.slice(command.argv, 0, at)
}

# A setting or variable that starts a program; what only tunes is not opaque.
_inline(command) if {
	not input.call.opaque == false
	some at, argument in command.argv
	at > 0
	is_string(argument)
	_starts(command.program, argument)
}

_inline(command) if {
	command.program == "git"
	verb(command) == "submodule"
	"foreach" in command.argv
}

_inline(command) if {
	command.program == "git"
	starts := {"difftool": "-x", "grep": "-O", "rebase": "-x"}[verb(command)]
	some argument in command.argv
	startswith(argument, starts)
}

# Code that the normaliser understands is not opaque; the marker tells what the rest is about.
_inline(command) if {
	language := config.programs.inline_language[command.program]
	not _understood(language)
	_has_code(command, language)
	some argument in array.slice(command.argv, 1, count(command.argv))
	is_string(argument)
	some marker in config.programs.inline_markers[language]
	contains(argument, marker)
}

_inline(command) if {
	language := config.programs.inline_language[command.program]
	not _understood_text(language)
	_literal(command)
	some redirect in command.redirects
	is_string(redirect.target)
	some marker in config.programs.inline_markers[language]
	contains(redirect.target, marker)
}

_understood(language) if {
	language in {"awk", "lua", "node", "perl", "php", "python", "r", "ruby"}
	input.call.opaque == false
}

_understood_text(language) if {
	language in {"node", "python"}
	input.call.opaque == false
}

# Without a regular expression: one with so many branches takes longer to compile than all other rules.
_starts("git", argument) if {
	some beginning in _git_settings
	startswith(lower(argument), beginning)
}

_starts("git", argument) if {
	parts := split(lower(argument), "=")
	count(parts) > 1
	trim(parts[0], "abcdefghijklmnopqrstuvwxyz.") == ""
	some end in [".cmd", ".textconv", ".helper", ".process", ".clean", ".smudge", ".driver", ".command"]
	endswith(parts[0], end)
}

_starts("make", argument) if {
	some beginning in ["SHELL", "MAKE", "MFLAGS"]
	startswith(trim_prefix(argument, "."), beginning)
}

_git_settings := [
	"alias.", "include", "core.askpass", "core.editor", "core.fsmonitor", "core.gitproxy", "core.hookspath",
	"core.pager", "core.sshcommand", "diff.external", "pager.", "sequence.editor", "gpg.",
]

# METADATA
# title: From standard input
# description: >-
#   An interpreter that reads its program from a pipe or a redirection. A literal here-document is read like inline
#   code, and a shell's is listed as commands.
from_stdin(command) if {
	config.programs.interpreters[command.program]
	_no_operand(command)
	_fed(command)
	not _literal(command)
}

_literal(command) if {
	_legible(command)
	_no_operand(command)
	command.position != "pipe"
	count(command.redirects) > 0
	every redirect in command.redirects { _text_or_output(redirect) }
	some redirect in command.redirects
	startswith(redirect.op, "<<")
}

# What is in the here-document is judged: as commands, or by the markers of its language.
_legible(command) if {
	config.programs.shells[command.program]
	command.opaque == false
}

_legible(command) if config.programs.inline_language[command.program]

_text_or_output(redirect) if {
	startswith(redirect.op, "<<")
	is_string(redirect.target)
}

_text_or_output(redirect) if not startswith(redirect.op, "<")

_fed(command) if command.position == "pipe"

# The client streams it, after the verdict.
_fed(_) if not input.call.stdin == false

_fed(command) if {
	some redirect in command.redirects
	startswith(redirect.op, "<")
}

_no_operand(command) if {
	not _asks(command)
	every argument in array.slice(command.argv, 1, count(command.argv)) {
		is_string(argument)
		startswith(argument, "-")
	}
}

_asks(command) if command.argv[1] in {"--help", "--version", "-V", "-version"}

# `python3 - a b`: the operands are the text's.
_no_operand(command) if command.argv[1] == "-"

_has_code(command, language) if {
	language in {"awk", "sql"}
	count(command.argv) > 1
}

_has_code(command, _) if {
	some argument in command.argv
	argument in {"-c", "-e", "-p", "-E", "-r", "-pe", "-ne", "--eval", "--print"}
}

# `perl -lane CODE`: the last letter of a cluster.
_has_code(command, language) if {
	language in {"perl", "ruby"}
	some argument in command.argv
	regex.match(`^-[a-zA-Z0-9.]*[eE]$`, argument)
}

_own(path) if {
	some root in ["./", "/workspace/"]
	startswith(path, root)
	not contains(path, "..")
}

# `build/app`: no name to look up, so beneath the current directory.
_own(path) if {
	contains(path, "/")
	not startswith(path, "/")
	not startswith(path, "~")
	not contains(path, "..")
}

_plain(command) if {
	command.opaque == false
	is_array(command.argv)
	is_array(command.via)
	every wrapper in command.via { config.programs.wrappers[wrapper] }
}

# METADATA
# title: Subcommand
# description: What stands behind a program's name and the options that are often before it.
verb(command) := command.argv[1] if {
	not startswith(command.argv[1], "-")
	not startswith(command.argv[1], "+")
}

else := [argument |
	some at, argument in array.slice(command.argv, 0, 16)
	at > 0
	not _leads(command, at)
][0]

_leads(command, at) if {
	startswith(command.argv[at], "-")
	_option(command.argv[at])
}

_leads(command, at) if startswith(command.argv[at], "+")

# A setting of git that would start a program is opaque.
_leads(command, at) if config.programs.leading[command.argv[at - 1]] == true

_option(argument) if config.programs.leading[argument] in {true, false}

_option(argument) if startswith(argument, "-D")

_option(argument) if startswith(argument, "-chdir=")

_option(argument) if {
	startswith(argument, "--")
	contains(argument, "=")
	regex.match(`^--[a-z][a-z-]*=`, argument)
}

# A script, an allowed module (`python -m pytest`), a version question, or inline code without risky calls.
_runs_file_or_module(command) if count(command.argv) == 1

_runs_file_or_module(command) if _literal(command)

_runs_file_or_module(command) if {
	is_string(command.argv[1])
	not startswith(command.argv[1], "-")
}

# A file of a known pattern (`for f in tests/*.sh; do sh "$f"; done`); of no known one the call is opaque.
_runs_file_or_module(command) if is_null(command.argv[1])

# A module of the workspace is as ordinary as a script; some of the interpreter's own are not.
_runs_file_or_module(command) if {
	module := command.argv[_module_at(command)]
	is_string(module)
	not config.programs.modules[module] == false
}

# Code of its own, wherever it stands: read by the normaliser and by `_inline`.
_runs_file_or_module(command) if {
	_has_code(command, config.programs.inline_language[command.program])
	not "-m" in command.argv
}

# Options, read by the normaliser: one that it does not know is opaque.
_runs_file_or_module(command) if {
	startswith(command.argv[1], "-")
	config.programs.inline_language[command.program]
	not "-m" in command.argv
}

_runs_file_or_module(command) if {
	command.argv[1] in {
		"--version", "-V", "-version", "-v", "-c", "-e", "-p", "-E", "-r", "-u", "-n", "-i", "-jar", "-cp", "--test",
		"--check", "--help", "-h", "-l", "-x", "-B", "-I", "-O", "-W", "-X", "-q", "-s",
	}
	not "-m" in command.argv
}

_module_at(command) := index + 1 if {
	some index, argument in command.argv
	argument == "-m"
	is_string(command.argv[index + 1])
}
