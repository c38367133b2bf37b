# METADATA
# title: Execution
# description: How programs are started, by Bash and Exec alike, and which of them nothing covers.
package opensafe.exec

import data.opensafe.command
import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Remote script
# description: What a network program fetches becomes the program of an interpreter.
# custom:
#   id: tool.exec.package.script.deny
#   severity: critical
#   threat: T14
blocks contains hit.block(
	"tool.exec.package.script.deny", "critical",
	$"what `{fetcher}` fetches is run by `{runner}`", runner,
	"Fetch to a file beneath /workspace, read it, then run that file.",
) if {
	some fetcher in _fetchers
	some runner in _runners
}

# METADATA
# title: Code-loading variables
# description: Environment variables that make a program load code its command line does not name.
# custom:
#   id: tool.exec.preload.deny
#   severity: critical
#   threat: T2
blocks contains hit.block(
	"tool.exec.preload.deny", "critical",
	$"the variable {name} makes programs load other code", name, $"Run the command without setting {name}.",
) if {
	some name in command.variables
	config.programs.code_loading[name]
}

# METADATA
# title: Code of another place
# description: Search paths of interpreters that leave the workspace.
# custom:
#   id: tool.exec.preload.deny
#   severity: critical
#   threat: T2
blocks contains hit.block(
	"tool.exec.preload.deny", "critical",
	$"{name}={value} makes programs load code from outside the workspace", name, $"Set {name} to directories of the workspace.",
) if {
	some item in input.call.commands
	some name, value in item.assignments
	name in {"CLASSPATH", "GEM_PATH", "GOPATH", "LUA_PATH", "NODE_PATH", "PERL5LIB", "PYTHONPATH", "RUBYLIB"}
	is_string(value)
	not input.call.opaque == false
	not _beneath(value)
}

# METADATA
# title: The loader as a program
# description: The dynamic loader started by name, which may preload and look elsewhere.
# custom:
#   id: tool.exec.preload.deny
#   severity: critical
#   threat: T2
blocks contains hit.block(
	"tool.exec.preload.deny", "critical",
	$"`{name}` starts a program with code of its choice", name, "Start the program by its name.",
) if {
	some name in command.names
	startswith(name, "ld-")
	contains(name, ".so")
}

# METADATA
# title: Set-user-id programs
# description: Programs that give a file capabilities.
# custom:
#   id: tool.exec.setuid.deny
#   severity: critical
#   threat: E2
blocks contains hit.block(
	"tool.exec.setuid.deny", "critical",
	$"`{name}` gives a program privileges", name, $"Leave `{name}` out.",
) if {
	some name in command.denied.setuid
}

# METADATA
# title: Set-user-id
# description: Modes that make a program run as its owner or group, and modes that are not known.
# custom:
#   id: tool.exec.setuid.deny
#   severity: critical
#   threat: E2
blocks contains hit.block(
	"tool.exec.setuid.deny", "critical",
	$"`{_text(item)}` sets a set-user-id or set-group-id bit, or a mode that is not known", _text(item),
	"Write the mode literally, without the s bits.",
) if {
	some program in ["chmod", "install", "mkdir"]
	some at in command.at[program]
	item := input.call.commands[at]
	not _plain_mode(item)
}

# METADATA
# title: Set-user-id in archives
# description: An archive whose members are given such a mode when it is made.
# custom:
#   id: tool.exec.setuid.deny
#   severity: critical
#   threat: E2
blocks contains hit.block(
	"tool.exec.setuid.deny", "critical",
	$"`{_text(item)}` gives members of an archive a set-user-id or set-group-id bit", _text(item),
	"Write the mode literally, without the s bits.",
) if {
	some program in ["bsdtar", "tar"]
	some place in command.at[program]
	item := input.call.commands[place]
	some at, argument in item.argv
	_special(_archive_mode(item.argv, at, argument))
}

# METADATA
# title: Set-user-id in copies
# description: A copy whose files are given such a mode.
# custom:
#   id: tool.exec.setuid.deny
#   severity: critical
#   threat: E2
blocks contains hit.block(
	"tool.exec.setuid.deny", "critical",
	$"`{_text(item)}` gives copies a set-user-id or set-group-id bit", _text(item),
	"Write the mode literally, without the s bits.",
) if {
	some place in command.at.rsync
	item := input.call.commands[place]
	some argument in item.argv
	startswith(argument, "--chmod=")
	_special(trim_left(trim_prefix(argument, "--chmod="), "DF"))
}

# METADATA
# title: False names
# description: >-
#   A program of a writable directory under the name of one of the system's. Interpreters and tools with subcommands
#   may lie where their package managers put them (`.venv/bin/python`).
# custom:
#   id: tool.exec.path.deny
#   severity: high
#   threat: T2
blocks contains hit.block(
	"tool.exec.path.deny", "high",
	$"{_text(item)} poses as the system's `{item.program}`", _text(item),
	$"Call `{item.program}` by its name alone, or give your program another one.",
) if {
	some item in input.call.commands
	not _by_name(item)
	_of_system(item.program)
	not _genuine(item)
}

# METADATA
# title: Search path
# description: A PATH with a writable directory, or one that is not known before the run.
# custom:
#   id: tool.exec.path.deny
#   severity: high
#   threat: T2
blocks contains hit.block(
	"tool.exec.path.deny", "high",
	$"PATH={search} may find programs in a writable directory", search,
	"Start the program by its path and leave PATH as it is.",
) if {
	some search in _search_paths
	not _safe_search(search)
}

# METADATA
# title: Hidden commands
# description: A wrapper (env, timeout, xargs …) whose inner command can't be read.
# custom:
#   id: tool.exec.wrapper.deny
#   severity: high
#   threat: T2
blocks contains hit.block(
	"tool.exec.wrapper.deny", "high",
	$"what {_wrapper(item)} starts can't be read", _wrapper(item), "Write the inner command and the wrapper's options literally.",
) if {
	some item in input.call.commands
	not _revealed(item)
}

# METADATA
# title: Programs of a role
# description: A caller none of whose roles may run every program runs those of its roles.
# custom:
#   id: tool.exec.allowlist
#   severity: high
#   threat: E7
blocks contains hit.block(
	"tool.exec.allowlist", "high",
	$"no role of the caller has the program `{name}`", name,
	$"Use a program of the role, or add `{name}` to role_programs in the site's policy data.",
) if {
	not _every_program
	some name in command.names
	not _of_role(name)
}

# METADATA
# title: Package installation
# description: Package managers run code of others at installation.
# custom:
#   id: tool.exec.package.install.review
#   severity: medium
#   threat: T14
reviews contains hit.review(
	"tool.exec.package.install.review", "medium",
	$"`{_text(item)}` installs packages, which may run code of others", _text(item),
	"Ask for a review, or use what is installed already.",
) if {
	some at in command.installing
	item := input.call.commands[at]
}

# METADATA
# title: Facts missing
# description: A call whose commands were not listed in full is not judged by them.
# custom:
#   id: default.deny
#   severity: high
#   threat: E5
blocks contains hit.block(
	"default.deny", "high",
	"the facts of this call are incomplete", "", "Report this: the daemon must send all facts of a call.",
) if {
	not command.listed
}

# METADATA
# title: Unlisted program
# description: A program that is neither ordinary nor reviewed has no rule that allows it.
# custom:
#   id: default.deny
#   severity: medium
#   threat: E5
blocks contains hit.block(
	"default.deny", "medium",
	$"no rule allows `{_text(item)}`", object.get(item, "program", ""),
	"Use an ordinary development program, or add this one to programs in the site's policy data.",
) if {
	some at, item in input.call.commands
	not command.everyday[at]
	not command.inline[at]
	not _covered(item, at)
}

# METADATA
# title: Ordinary
# description: All commands are ordinary; shared by the allow rules of Bash and Exec.
ordinary if {
	command.listed
	input.call.opaque == false
	count(input.call.commands) > 0
	count(command.everyday) == count(input.call.commands)
}

# Opaque in a way that a human can judge; a program nobody listed stays one.
_known("") := true

_known(name) if config.programs.ordinary[name]

_known(name) if config.programs.interpreters[name]

_known(name) if config.programs.wrappers[name]

_known(name) if config.programs.subcommands[name]

_known(name) if config.programs.escapes[name]

_every_program if {
	some role in input.principal.roles
	config.role_programs[role] == "any"
}

_of_role(name) if {
	some role in input.principal.roles
	config.role_programs[role][name]
}

_by_name(item) if item.argv[0] == item.program

_genuine(item) if config.programs.directories[trim_suffix(item.argv[0], item.program)]

else if {
	not config.programs.trusted[item.program]
	not contains(item.argv[0], "..")
	some own in config.programs.own_directories
	endswith($"/{item.argv[0]}", $"{own}/{item.program}")
}

_beneath(value) if {
	every place in split(value, ":") {
		not contains(place, "..")
		_of_workspace(place)
	}
}

_of_workspace(place) if not startswith(place, "/")

_of_workspace(place) if startswith(place, "/workspace")

_of_system(name) if config.programs.trusted[name]

_of_system(name) if config.programs.interpreters[name]

_of_system(name) if config.programs.subcommands[name]

_search_paths contains input.call.env.PATH

_search_paths contains item.assignments.PATH if some item in input.call.commands

# `hash -p /tmp/x ls` binds a name to a file.
_search_paths contains "?" if {
	some at in command.at.hash
	"-p" in input.call.commands[at].argv
}

# Set by name, to what is not known: `read PATH`, `printf -v PATH`.
_search_paths contains "?" if {
	some program in ["mapfile", "read", "readarray", "unset"]
	some at in command.at[program]
	"PATH" in input.call.commands[at].argv
}

_search_paths contains "?" if {
	some at in command.at.printf
	item := input.call.commands[at]
	some argument in array.slice(item.argv, 1, 3)
	argument in {"-vPATH", "PATH"}
	startswith(item.argv[1], "-v")
}

# `export "PATH=/tmp"`: a word, not an assignment.
_search_paths contains trim_prefix(argument, "PATH=") if {
	some argument in _declared
	startswith(argument, "PATH=")
}

_search_paths contains "?" if {
	some argument in _declared
	startswith(argument, "PATH+=")
}

_declared := [argument |
	some program in ["declare", "export", "local", "readonly", "typeset"]
	some at in command.at[program]
	some argument in input.call.commands[at].argv
]

_safe_search(search) if {
	every place in split(search, ":") { _safe_place(place) }
}

_safe_place(place) if config.programs.directories[$"{place}/"]

_safe_place(place) if {
	startswith(place, "/workspace/")
	some own in config.programs.own_directories
	endswith(place, own)
}

_revealed(item) if item.opaque == false

else if {
	count(item.via) == 0
	not item.program in {"env", "parallel", "xargs"}
}

# A shell's text is opaque in itself: tool.bash.opaque.review.
else if config.programs.shells[_wrapper(item)]

else if _wrapper(item) in {".", "eval", "source", "trap"}

_wrapper(item) := item.via[count(item.via) - 1]

_wrapper(item) := item.program if count(item.via) == 0

_plain_mode(item) if {
	_mode_known(item)
	every argument in item.argv { not _special(argument) }
}

# The mode is the first operand of chmod; the others have one only by option.
_mode_known(item) if {
	item.program == "chmod"
	some argument in item.argv
	_looks_like_mode(argument)
}

_mode_known(item) if {
	item.program == "chmod"
	some argument in item.argv
	startswith(argument, "--reference=/workspace/")
}

_mode_known(item) if {
	item.program in {"install", "mkdir"}
	is_array(item.argv)
}

_archive_mode(_, _, argument) := trim_prefix(argument, "--mode=") if startswith(argument, "--mode=")

_archive_mode(argv, at, "--mode") := argv[at + 1]

# Octal, or clauses such as `u+rw,g=`. Without regular expressions, here as below: to compile one takes longer than all
# other rules of a call.
_looks_like_mode(argument) if {
	trim(argument, "01234567") == ""
	count(argument) in numbers.range(1, 5)
}

_looks_like_mode(argument) if {
	every clause in split(argument, ",") { _is_clause(clause) }
}

_is_clause(clause) if trim_right(_change(clause), "rwxXstugo") in {"-", "+", "="}

# What stands behind the users' letters.
_change(clause) := trim_left(clause, "ugoa")

_special(argument) if {
	octal := trim_prefix(trim_prefix(argument, "-m"), "--mode=")
	trim(octal, "01234567") == ""
	mode := trim_left(octal, "0")
	count(mode) == 4
	not startswith(mode, "1")
}

_special(argument) if {
	contains(argument, "s")
	clauses := split(trim_prefix(trim_prefix(argument, "-m"), "--mode="), ",")
	some at, clause in clauses
	_sets_special(_change(clause))
	every earlier in array.slice(clauses, 0, at) { _is_clause(earlier) }
}

_sets_special(change) if {
	startswith(change, "+")
	startswith(trim_left(substring(change, 1, -1), "rwxXtugo"), "s")
}

_sets_special(change) if {
	startswith(change, "=")
	startswith(trim_left(substring(change, 1, -1), "rwxXtugo"), "s")
}

_covered(_, at) if command.installing[at]

_covered(_, at) if command.fed[at]

_covered(_, at) if command.remote[at]

_covered(item, _) if {
	item.opaque == true
	_known(item.program)
}

_covered(item, _) if config.programs.detaching[item.program]

_covered(item, _) if {
	some wrapper in item.via
	config.programs.install_always[wrapper]
}

# Blocked by a rule that names it better than default.deny would.
_covered(item, _) if {
	some name in array.concat([item.program], item.via)
	config.programs.denied[name]
}

_covered(item, _) if command.network[item.program]

_fetchers contains name if {
	listing := config.programs.network
	some name in command.names
	listing[name]
}

_runners contains item.program if {
	some item in input.call.commands
	config.programs.shells[item.program]
	item.position == "pipe"
}

_runners contains input.call.commands[at].program if some at in command.fed

_runners contains item.program if {
	_substituted
	some item in input.call.commands
	config.programs.interpreters[item.program]
}

_runners contains name if {
	_substituted
	some name in command.names
	_runs_text(name)
}

_runs_text(name) if config.programs.shells[name]

_runs_text(name) if name in {"eval", "source", "."}

_substituted if {
	some name in command.network
	some at in command.at[name]
	input.call.commands[at].position == "substitution"
}

# An archive that is fetched and unpacked at once, and a program by its path.
_runners contains item.program if {
	count(_fetchers) > 0
	some unpacker in ["bsdtar", "cpio", "tar"]
	some place in command.at[unpacker]
	input.call.commands[place].position == "pipe"
	some item in input.call.commands
	contains(item.argv[0], "/")
	not config.programs.directories[trim_suffix(item.argv[0], item.program)]
}

# A text that is not known before the run, where something is fetched.
_runners contains name if {
	count(_fetchers) > 0
	some name in command.names
	_runs_text(name)
	some reason in input.call.opaque_reasons
	reason == $"{name} runs a text that is not known before the run"
}

# A program that the same call fetches: `wget HOST/x; sh x`.
_runners contains item.program if {
	count(_fetched) > 0
	some item in input.call.commands
	some argument in _fetched
	_starts(item, argument)
}

# The words of which one may be the file that a network program fetches to.
_fetched contains argument if {
	some name in command.network
	some at in command.at[name]
	some argument in input.call.commands[at].argv
}

_fetched contains redirect.target if {
	some name in command.network
	some at in command.at[name]
	some redirect in input.call.commands[at].redirects
}

# The file is the program itself, its operand, or what it looks for unasked: `/usr/bin/make` may be two of them.
_starts(item, file) if {
	contains(item.argv[0], "/")
	_names(file, item.program)
}

_starts(item, file) if {
	_runs_operand(item.program)
	parts := split(item.argv[1], "/")
	_names(file, parts[count(parts) - 1])
}

_starts(item, file) if {
	item.program == "make"
	not "-f" in item.argv
	_names(file, "Makefile")
}

_runs_operand(program) if program in {".", "source"}

_runs_operand(program) if config.programs.interpreters[program]

_names(argument, name) if argument == name

_names(argument, name) if endswith(argument, $"/{name}")

_text(item) := concat(" ", [object.get({"null": "?"}, type_name(part), part) | some part in item.argv])
