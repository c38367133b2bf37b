# METADATA
# title: Bash
# description: Rules on what a shell text or a single program does, over the commands read from it.
package opensafe.bash

import data.opensafe.command
import data.opensafe.config
import data.opensafe.exec
import data.opensafe.hit
import data.opensafe.write

# METADATA
# title: Network programs
# description: A network program is allowed only where every host it talks to is known and granted.
# custom:
#   id: tool.bash.network.deny
#   severity: high
#   threat: information disclosure
blocks contains hit.block(
	"tool.bash.network.deny", "high",
	$"`{item.program}` would talk to a host that is not granted", item.program,
	"Name only hosts of the site's allow list, literally; or do without the network.",
) if {
	some item in input.call.commands
	config.programs.network[item.program]
	not command.networked(item)
}

# METADATA
# title: Other programs given a host
# description: Any program that is given a host which is not granted, and the shell's own /dev/tcp.
# custom:
#   id: tool.bash.network.deny
#   severity: high
#   threat: information disclosure
blocks contains hit.block(
	"tool.bash.network.deny", "high",
	$"the command names the host {host.name}, which is not granted", host.name,
	"Name only hosts of the site's allow list.",
) if {
	some host in input.call.hosts
	not host.classes.allowed == true
}

# METADATA
# title: Destruction
# description: Programs that destroy file systems and devices.
# custom:
#   id: tool.bash.destructive.deny
#   severity: critical
#   threat: denial of service
blocks contains hit.block(
	"tool.bash.destructive.deny", "critical",
	$"`{name}` destroys a file system or device", name, $"Leave `{name}` out.",
) if {
	some name in command.names
	config.programs.destructive[name]
}

# METADATA
# title: Deletion outside the workspace
# description: Deletes are for the workspace and temporary directories, and never for their roots.
# custom:
#   id: tool.bash.destructive.deny
#   severity: critical
#   threat: denial of service
blocks contains hit.block(
	"tool.bash.destructive.deny", "critical",
	$"deletes {path.path}, which is outside the workspace or its root", path.path,
	"Delete named paths beneath /workspace or /tmp only.",
) if {
	some path in input.call.deletes
	not _deletable(path)
}

# METADATA
# title: Raw device output
# description: dd and its like writing to a device.
# custom:
#   id: tool.bash.destructive.deny
#   severity: critical
#   threat: denial of service
blocks contains hit.block(
	"tool.bash.destructive.deny", "critical",
	$"`{item.program} {argument}` writes to a device", argument, "Write to a file beneath /workspace or /tmp.",
) if {
	some item in input.call.commands
	some argument in item.argv
	startswith(argument, "of=/dev/")
	not argument in {"of=/dev/null", "of=/dev/stdout", "of=/dev/stderr"}
}

# METADATA
# title: Opaque commands
# description: What the shell grammar can't resolve is shown to a human instead of guessed.
# custom:
#   id: tool.bash.opaque.review
#   severity: medium
#   threat: tampering
reviews contains hit.review(
	"tool.bash.opaque.review", "medium",
	$"the command can't be read in full: {concat(", ", _reasons)}", concat(", ", _reasons),
	"Write program names and operands literally.",
) if {
	not _readable
}

# METADATA
# title: Program from standard input
# description: An interpreter that runs what another command prints (decode-and-run) or a here-document.
# custom:
#   id: tool.bash.opaque.review
#   severity: medium
#   threat: tampering
reviews contains hit.review(
	"tool.bash.opaque.review", "medium",
	$"`{item.program}` runs what it reads from standard input", item.program,
	"Write the program to a file beneath /workspace and run that file.",
) if {
	some item in input.call.commands
	command.from_stdin(item)
}

# METADATA
# title: Inline code
# description: Interpreters given code that calls processes or the network, and options that start another program.
# custom:
#   id: tool.bash.interpreter.review
#   severity: medium
#   threat: tampering
reviews contains hit.review(
	"tool.bash.interpreter.review", "medium",
	$"`{item.program}` is given code or an option that starts other programs", item.program,
	"Write the code to a file beneath /workspace, or leave the option out.",
) if {
	some item in input.call.commands
	command.inline(item)
}

# METADATA
# title: Ordinary work
# description: Everyday development commands that stay within the workspace.
# custom:
#   id: tool.bash.workspace.allow
#   severity: info
#   threat: none
allows contains hit.allow(
	"tool.bash.workspace.allow",
	"ordinary development commands within the workspace", "",
) if {
	exec.ordinary
}

# METADATA
# title: Ordinary program
# description: The same for one program started without a shell.
# custom:
#   id: tool.exec.allowlist
#   severity: info
#   threat: none
program_allows contains hit.allow(
	"tool.exec.allowlist",
	"an ordinary development program within the workspace", "",
) if {
	exec.ordinary
}

_readable if {
	input.call.opaque == false
	every item in input.call.commands { item.opaque == false }
}

_reasons := input.call.opaque_reasons if count(input.call.opaque_reasons) > 0

else := ["unresolved"]

_deletable(path) if {
	write.within(path)
	not path.path in {"/workspace", "/tmp", "/var/tmp"}
}
