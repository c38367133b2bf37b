# METADATA
# title: Commands
# description: What a call's commands are, asked once and shared by the bash, exec and egress rules.
package opensafe.command

import data.opensafe.config

# METADATA
# title: Positions
# description: >-
#   Where each program stands among the commands. What only some programs do is asked of their commands alone, so that
#   it costs the others nothing; what the site says of a program is asked once, however often it runs.
at[item.program] contains place if some place, item in input.call.commands

# METADATA
# title: Network
# description: The network programs among those that the commands run.
network contains name if {
	listing := config.programs.network
	some name, _ in at
	listing[name]
}

_interpreters contains name if {
	known := config.programs.interpreters
	some name, _ in at
	known[name]
}

# METADATA
# title: Names
# description: Every program that runs, wrappers (sudo, env, sh -c …) included.
names contains name if some name in input.call.commands[_].via

names contains name if some name, _ in at

# METADATA
# title: Denied
# description: The programs of the call that the site denies, by class.
denied[class] contains name if {
	classes := config.programs.denied
	some name in names
	class := classes[name]
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
	some program in ["export", "declare", "typeset", "local", "readonly", "env", "unset"]
	some place in at[program]
	some argument in input.call.commands[place].argv
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

talks if count(network) > 0

talks if count(remote) > 0

# METADATA
# title: Remote
# description: The positions of subcommands that talk to another host (`git push`).
remote contains place if {
	listing := config.programs.remote
	some name, places in at
	verbs := listing[name]
	some place in places
	verbs[verb(input.call.commands[place])]
}

remote contains place if {
	some place in at.git
	item := input.call.commands[place]
	verb(item) == "submodule"
	some argument in item.argv
	argument in {"add", "update"}
}

remote contains place if {
	some place in at.git
	item := input.call.commands[place]
	verb(item) == "remote"
	some argument in item.argv
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
everyday contains place if {
	some place, item in input.call.commands
	_plain(item)
	not inline[place]
	not installing[place]
	_usual(item, place)
}

everyday contains place if some place in networked

# Assignments and redirections without a program.
everyday contains place if {
	some place in at[""]
	item := input.call.commands[place]
	item.argv == []
	item.opaque == false
}

# One after the other until one holds: what is asked most often stands first.
_usual(command, place) if config.programs.ordinary[command.program]

else if {
	verbs := config.programs.subcommands[command.program]
	verbs[verb(command)]
}

else if {
	config.programs.interpreters[command.program]
	_runs_file_or_module(command)
	not fed[place]
}

# The workspace's own programs, by path: as ordinary as a script of the workspace.
else if _own(command.argv[0])

else if _local_tool(command)

# What npx starts, where npx itself is ordinary.
else if {
	"npx" in command.via
	config.programs.local_tools[command.program]
}

else if {
	remote[place]
	hosts_granted
}

# A program that the same call compiles.
else if {
	some path in input.call.writes
	path.path == command.argv[0]
	path.classes.tmp == true
	some compiler in ["c++", "cc", "clang", "clang++", "g++", "gcc", "go", "ld", "rustc"]
	at[compiler]
}

# METADATA
# title: Networked
# description: The positions of network programs all of whose operands are known and whose hosts are granted.
networked contains place if {
	some name in network
	some place in at[name]
	item := input.call.commands[place]
	_plain(item)
	_talks_to_known(item)
}

# A copy from one place here to another.
networked contains place if {
	some place in at.rsync
	_plain(input.call.commands[place])
	count(input.call.hosts) == 0
	input.call.opaque == false
}

_talks_to_known(_) if hosts_granted

# What talks to nobody: a question for the version, and subcommands that only compute (`openssl dgst`).
_talks_to_known(command) if {
	count(command.argv) == 2
	command.argv[1] in {"--version", "--help", "-V"}
}

_talks_to_known(command) if {
	config.programs.subcommands[command.program][verb(command)]
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
# title: Installing
# description: The positions of commands that fetch and run code of others through a package manager.
installing contains place if {
	listing := config.programs.install_always
	some name, places in at
	listing[name]
	some place in places
	not _local_tool(input.call.commands[place])
}

# `npx tsc`: a development tool that a project has among its own packages; what else npx runs it may fetch first.
_local_tool(command) if {
	command.program == "npx"
	some place in [_tool_at(command)]
	_in_project(command, place)
	every option in array.slice(command.argv, 1, place) { option in _npx_options }
}

_npx_options := {"--no", "--no-install", "--offline", "--quiet", "-q"}

_in_project(command, place) if config.programs.local_tools[command.argv[place]]

_in_project(command, place) if {
	contains(command.argv[place], "@") == false
	some option in array.slice(command.argv, 1, place)
	option in {"--no", "--no-install", "--offline"}
}

_tool_at(command) := [place |
	some place, argument in array.slice(command.argv, 0, 16)
	place > 0
	not startswith(argument, "-")
][0]

installing contains place if {
	managers := config.programs.install
	some name, places in at
	verbs := managers[name]
	some place in places
	some argument in input.call.commands[place].argv
	verbs[argument]
}

# `python -m pip install`.
installing contains place if {
	some name in _interpreters
	some place in at[name]
	item := input.call.commands[place]
	verbs := config.programs.install[item.argv[_module_at(item)]]
	some argument in item.argv
	verbs[argument]
}

# `python setup.py install`.
installing contains place if {
	some name in _interpreters
	some place in at[name]
	item := input.call.commands[place]
	item.argv[1] == "setup.py"
	item.argv[2] in {"develop", "install"}
}

# `yarn` alone installs.
installing contains place if {
	some place in at.yarn
	config.programs.install.yarn.install
	count(input.call.commands[place].argv) == 1
}

# METADATA
# title: Inline
# description: >-
#   The positions of the commands that carry code of their own that calls processes or the network, or hand over to
#   another program.
inline contains place if {
	escapes := config.programs.escapes
	some name, places in at
	options := escapes[name]
	some place in places
	argv := input.call.commands[place].argv
	some before, argument in argv
	is_string(argument)
	options[split(argument, "=")[0]]
	not "--" in array.slice(argv, 0, before)
}

# A setting or variable that starts a program; what only tunes is not opaque.
inline contains place if {
	not input.call.opaque == false
	some program in ["git", "make"]
	some place in at[program]
	some before, argument in input.call.commands[place].argv
	before > 0
	is_string(argument)
	_starts(program, argument)
}

inline contains place if {
	some place in at.git
	item := input.call.commands[place]
	verb(item) == "submodule"
	"foreach" in item.argv
}

inline contains place if {
	some place in at.git
	item := input.call.commands[place]
	starts := {"difftool": "-x", "grep": "-O", "rebase": "-x"}[verb(item)]
	some argument in item.argv
	startswith(argument, starts)
}

# Code that the normaliser understands is not opaque; the marker tells what the rest is about.
inline contains place if {
	languages := config.programs.inline_language
	some name, places in at
	language := languages[name]
	not _understood(language)
	some place in places
	item := input.call.commands[place]
	_has_code(item, language)
	some argument in array.slice(item.argv, 1, count(item.argv))
	is_string(argument)
	some marker in config.programs.inline_markers[language]
	contains(argument, marker)
}

inline contains place if {
	languages := config.programs.inline_language
	some name, places in at
	language := languages[name]
	not _understood_text(language)
	some place in places
	item := input.call.commands[place]
	_literal(item)
	some redirect in item.redirects
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
# title: Fed
# description: >-
#   The positions of interpreters that read their program from a pipe or a redirection. A literal here-document is read
#   like inline code, and a shell's is listed as commands.
fed contains place if {
	some name in _interpreters
	some place in at[name]
	item := input.call.commands[place]
	_no_operand(item)
	_fed(item)
	not _literal(item)
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
	startswith(argument, "-")
	endswith(lower(argument), "e")
	trim_right(argument, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.") == "-"
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
	some place, argument in array.slice(command.argv, 0, 16)
	place > 0
	not _leads(command, place)
][0]

_leads(command, place) if {
	startswith(command.argv[place], "-")
	_option(command.argv[place])
}

_leads(command, place) if startswith(command.argv[place], "+")

# A setting of git that would start a program is opaque.
_leads(command, place) if config.programs.leading[command.argv[place - 1]] == true

_option(argument) if config.programs.leading[argument] in {true, false}

_option(argument) if startswith(argument, "-D")

_option(argument) if startswith(argument, "-chdir=")

_option(argument) if {
	startswith(argument, "--")
	contains(argument, "=")
	name := substring(split(argument, "=")[0], 2, -1)
	name != ""
	not startswith(name, "-")
	trim(name, "abcdefghijklmnopqrstuvwxyz-") == ""
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
	not config.programs.modules[split(module, ".")[0]] == false
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
