# METADATA
# title: Programs
# description: Programs that no agent needs, in Bash and Exec alike, also where a wrapper starts them.
package opensafe.exec

import data.opensafe.command
import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Changing user
# description: Programs that change the user or its privileges. The sandbox has one user.
# custom:
#   id: tool.exec.sudo.deny
#   severity: critical
#   threat: elevation of privilege
blocks contains hit.block(
	"tool.exec.sudo.deny", "critical",
	$"`{name}` changes the user or its privileges", name, $"Run the command without `{name}`.",
) if {
	some name in command.names
	config.programs.privilege[name]
}

# METADATA
# title: Namespaces and mounts
# description: Programs that make or enter namespaces, roots and mounts.
# custom:
#   id: tool.exec.namespace.deny
#   severity: critical
#   threat: elevation of privilege
blocks contains hit.block(
	"tool.exec.namespace.deny", "critical",
	$"`{name}` makes or enters a namespace, root or mount", name, $"Leave `{name}` out; work beneath /workspace.",
) if {
	some name in command.names
	config.programs.namespace[name]
}

# METADATA
# title: Kernel
# description: Programs that change or observe the kernel.
# custom:
#   id: tool.exec.kernel.deny
#   severity: critical
#   threat: tampering
blocks contains hit.block(
	"tool.exec.kernel.deny", "critical",
	$"`{name}` changes or observes the kernel", name, $"Leave `{name}` out.",
) if {
	some name in command.names
	config.programs.kernel[name]
}

# METADATA
# title: Containers
# description: Programs that start containers or talk to a cluster.
# custom:
#   id: tool.exec.container.deny
#   severity: high
#   threat: elevation of privilege
blocks contains hit.block(
	"tool.exec.container.deny", "high",
	$"`{name}` starts containers or talks to a cluster", name, "Run the program itself; it is in a sandbox already.",
) if {
	some name in command.names
	config.programs.container[name]
}

# METADATA
# title: Remote script
# description: What a network program fetches becomes the program of an interpreter.
# custom:
#   id: tool.exec.package.script.deny
#   severity: critical
#   threat: tampering
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
#   threat: elevation of privilege
blocks contains hit.block(
	"tool.exec.preload.deny", "critical",
	$"the variable {name} makes programs load other code", name, $"Run the command without setting {name}.",
) if {
	some name in _variables
	config.programs.code_loading[name]
}

# METADATA
# title: Package installation
# description: Package managers run code of others at installation.
# custom:
#   id: tool.exec.package.install.review
#   severity: medium
#   threat: tampering
reviews contains hit.review(
	"tool.exec.package.install.review", "medium",
	$"`{_text(item)}` installs packages, which may run code of others", _text(item),
	"Ask for a review, or use what is installed already.",
) if {
	some item in input.call.commands
	command.installs(item)
}

# METADATA
# title: Facts missing
# description: A call whose commands were not listed in full is not judged by them.
# custom:
#   id: default.deny
#   severity: high
#   threat: tampering
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
#   threat: elevation of privilege
blocks contains hit.block(
	"default.deny", "medium",
	$"no rule allows `{_text(item)}`", object.get(item, "program", ""),
	"Use an ordinary development program, or add this one to programs in the site's policy data.",
) if {
	some item in input.call.commands
	not _covered(item)
}

# METADATA
# title: Ordinary
# description: All commands are ordinary; shared by the allow rules of Bash and Exec.
ordinary if {
	command.listed
	input.call.opaque == false
	count(input.call.commands) > 0
	every item in input.call.commands { command.ordinary(item) }
}

_covered(item) if command.ordinary(item)

_covered(item) if command.installs(item)

_covered(item) if command.inline(item)

_covered(item) if command.from_stdin(item)

_covered(item) if item.opaque == true

_covered(item) if {
	some wrapper in item.via
	config.programs.install_always[wrapper]
}

# Blocked by a rule that names it better than default.deny would.
_covered(item) if {
	some name in array.concat([item.program], item.via)
	some class in ["privilege", "namespace", "kernel", "container", "destructive"]
	config.programs[class][name]
}

_covered(item) if config.programs.network[item.program]

_fetchers contains name if {
	some name in command.names
	config.programs.network[name]
}

_runners contains item.program if {
	some item in input.call.commands
	config.programs.shells[item.program]
	item.position == "pipe"
}

_runners contains item.program if {
	some item in input.call.commands
	command.from_stdin(item)
}

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
	some item in input.call.commands
	item.position == "substitution"
	config.programs.network[item.program]
}

_variables contains name if some name, _ in input.call.env

_variables contains name if some name, _ in input.call.commands[_].assignments

_variables contains split(argument, "=")[0] if {
	some item in input.call.commands
	item.program in {"export", "declare", "typeset", "local", "readonly", "env"}
	some argument in item.argv
	is_string(argument)
}

_text(item) := concat(" ", [object.get({"null": "?"}, type_name(part), part) | some part in item.argv])
