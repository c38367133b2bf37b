# METADATA
# title: Bash
# description: Rules on what a shell text or a single program does, over the commands read from it.
package opensafe.bash

import data.opensafe.command
import data.opensafe.config
import data.opensafe.delete
import data.opensafe.exec
import data.opensafe.hit
import data.opensafe.write

# METADATA
# title: Network programs
# description: A network program is allowed only where every host it talks to is known and granted.
# custom:
#   id: tool.bash.network.deny
#   severity: high
#   threat: I3
blocks contains hit.block(
	"tool.bash.network.deny", "high",
	$"`{item.program}` would talk to a host that is not granted", item.program,
	"Name only hosts of the site's allow list, literally; or do without the network.",
) if {
	some name in command.network
	some at in command.at[name]
	not command.networked[at]
	item := input.call.commands[at]
}

# METADATA
# title: Subcommands that talk
# description: A subcommand that talks to another host (`git push`) is allowed only where the host is named and granted.
# custom:
#   id: tool.bash.network.deny
#   severity: high
#   threat: I3
blocks contains hit.block(
	"tool.bash.network.deny", "high",
	$"`{item.program}` would talk to a remote that the command does not name", item.program,
	"Commit, and leave pulling and pushing to a person; or name the remote by URL, with a host of the site's allow list.",
) if {
	some at in command.remote
	not command.hosts_granted
	item := input.call.commands[at]
}

# METADATA
# title: Other programs given a host
# description: Any program that is given a host which is not granted, and the shell's own /dev/tcp.
# custom:
#   id: tool.bash.network.deny
#   severity: high
#   threat: I3
blocks contains hit.block(
	"tool.bash.network.deny", "high",
	$"the command names the host {host.name}, which is not granted", host.name,
	"Name only hosts of the site's allow list.",
) if {
	some host in input.call.hosts
	not host.classes.allowed == true
}

# METADATA
# title: Hosts that are not known
# description: The shell's own /dev/tcp, or a program given a host, where the text does not show which one.
# custom:
#   id: tool.bash.network.deny
#   severity: high
#   threat: I3
blocks contains hit.block(
	"tool.bash.network.deny", "high",
	"the command names a host that is not known before the run", reason, "Name only hosts of the site's allow list, literally.",
) if {
	some reason in input.call.opaque_reasons
	endswith(reason, " may reach a host that is not known before the run")
}

# METADATA
# title: Deletion outside the workspace
# description: Deletes are for the workspace and temporary directories, and never for their roots.
# custom:
#   id: tool.bash.destructive.deny
#   severity: critical
#   threat: T16
blocks contains hit.block(
	"tool.bash.destructive.deny", "critical",
	$"deletes {path.path}, which is outside the workspace or its root", path.path,
	"Delete named paths beneath /workspace or /tmp only.",
) if {
	some path in input.call.deletes
	not delete.allowed(path)
}

# METADATA
# title: Raw device output
# description: dd and its like writing to a device.
# custom:
#   id: tool.bash.destructive.deny
#   severity: critical
#   threat: T16
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
# title: Devices written to
# description: A redirection or operand that is a device and no stream.
# custom:
#   id: tool.bash.destructive.deny
#   severity: critical
#   threat: T16
blocks contains hit.block(
	"tool.bash.destructive.deny", "critical",
	$"writes to the device {path.path}", path.path, "Write to a file beneath /workspace or /tmp.",
) if {
	some path in input.call.writes
	path.classes.device == true
	not path.classes.stream
}

# METADATA
# title: Work tree elsewhere
# description: git told to work on another directory, which it may clean or reset.
# custom:
#   id: tool.bash.destructive.deny
#   severity: critical
#   threat: T16
blocks contains hit.block(
	"tool.bash.destructive.deny", "critical",
	$"`git {argument}` works on another directory", argument, "Run git in its own directory, or with -C and a directory of the workspace.",
) if {
	some at in command.at.git
	some argument in input.call.commands[at].argv
	startswith(argument, "--work-tree")
	not startswith(argument, "--work-tree=/workspace/")
}

# METADATA
# title: Git settings
# description: git told to set, or to take from a template, what runs other programs.
# custom:
#   id: tool.write.vcs.deny
#   severity: critical
#   threat: T14
blocks contains hit.block(
	"tool.write.vcs.deny", "critical",
	"git is given a setting or template that runs programs later", "git",
	"Set only names and options that start nothing, such as user.name.",
) if {
	not input.call.opaque == false
	some at in command.at.git
	command.verb(input.call.commands[at]) in {"config", "init"}
}

# METADATA
# title: Truncation outside the workspace
# description: truncate empties files; outside the workspace that destroys them.
# custom:
#   id: tool.bash.destructive.deny
#   severity: critical
#   threat: T16
blocks contains hit.block(
	"tool.bash.destructive.deny", "critical",
	$"truncates {path.path}, which is outside the workspace", path.path, "Truncate files beneath /workspace or /tmp only.",
) if {
	_empties
	some path in input.call.writes
	not write.within(path)
	not path.classes.stream
}

# METADATA
# title: Background
# description: Programs that are put into the background and that nobody waits for.
# custom:
#   id: tool.bash.background.review
#   severity: low
#   threat: D3
reviews contains hit.review(
	"tool.bash.background.review", "low",
	$"`{item.program}` would outlive the call", item.program, "Run it in the foreground, or `wait` for it.",
) if {
	some item in input.call.commands
	not _ends(item)
}

# METADATA
# title: Uploads by commands
# description: A network program that sends a file, even to an allowed host.
# custom:
#   id: egress.upload.review
#   severity: medium
#   threat: I3
reviews contains hit.review(
	"egress.upload.review", "medium",
	$"`{item.program}` sends a file", item.program, "Ask for a review and say what is sent, or only download.",
) if {
	listing := config.programs.uploads
	some name, places in command.at
	options := listing[name]
	some at in places
	item := input.call.commands[at]
	some argument in _sent(item)
	_uploads(argument, options)
}

# METADATA
# title: Uploads of what is not known
# description: curl given data that is not known before the run (`--data "$(cat a)"`).
# custom:
#   id: egress.upload.review
#   severity: medium
#   threat: I3
reviews contains hit.review(
	"egress.upload.review", "medium",
	"`curl` sends data that is not known before the run", "curl", "Write the data literally, or only download.",
) if {
	some place in command.at.curl
	item := input.call.commands[place]
	some at, argument in item.argv
	argument in {"-d", "--data", "--data-raw", "--data-urlencode", "--json"}
	is_null(item.argv[at + 1])
}

# METADATA
# title: Opaque commands
# description: What the shell grammar can't resolve is shown to a human instead of guessed.
# custom:
#   id: tool.bash.opaque.review
#   severity: medium
#   threat: T2
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
#   threat: T2
reviews contains hit.review(
	"tool.bash.opaque.review", "medium",
	$"`{item.program}` runs what it reads from standard input", item.program,
	"Write the program to a file beneath /workspace and run that file.",
) if {
	some at in command.fed
	item := input.call.commands[at]
}

# METADATA
# title: Inline code
# description: Interpreters given code that calls processes or the network, and options that start another program.
# custom:
#   id: tool.bash.interpreter.review
#   severity: medium
#   threat: T2
reviews contains hit.review(
	"tool.bash.interpreter.review", "medium",
	$"`{item.program}` is given code or an option that starts other programs", item.program,
	"Write the code to a file beneath /workspace, or leave the option out.",
) if {
	some at in command.inline
	item := input.call.commands[at]
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

_empties if command.at.truncate

# `> /etc/hosts` and `: > /etc/hosts`.
_empties if {
	some program in ["", ":", "true"]
	some at in command.at[program]
	some redirect in input.call.commands[at].redirects
	redirect.op in {">", ">|"}
}

# `cp /dev/null /etc/hosts`, `dd if=/dev/zero of=/etc/hosts`.
_empties if {
	some program in ["cat", "cp", "dd", "install"]
	some at in command.at[program]
	some argument in input.call.commands[at].argv
	trim_prefix(argument, "if=") in {"/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"}
}

_readable if {
	input.call.opaque == false
	every item in input.call.commands { item.opaque == false }
}

_reasons := input.call.opaque_reasons if count(input.call.opaque_reasons) > 0

else := ["unresolved"]

_ends(item) if {
	_waited_for[item.position]
	_attached(item)
}

_ends(item) if {
	item.position == "background"
	_attached(item)
	_awaited
}

_waited_for := {"top", "pipe", "substitution", "condition", "function"}

_attached(item) if {
	not _detaches
	is_array(item.via)
}

else if {
	not config.programs.detaching[item.program]
	every wrapper in item.via { not config.programs.detaching[wrapper] }
}

# By default false, since what is undefined is looked for again each time.
default _detaches := false

_detaches if {
	some name in command.names
	config.programs.detaching[name]
}

_awaited if {
	some program in ["wait", "kill", "fg", "pkill"]
	command.at[program]
}

# Of a program with subcommands the subcommand alone: `git stash push` sends nothing.
_sent(item) := [command.verb(item)] if config.programs.remote[item.program]

_sent(item) := item.argv if not config.programs.remote[item.program]

# `curl -sT file`: the letter may stand behind others.
_uploads(argument, options) if {
	options["-T"]
	startswith(argument, "-")
	letters := trim_left(substring(argument, 1, -1), "abcdefghijklmnopqrstuvwxyzABCDEGHIJKLMNOPQRSUVWXYZ")
	substring(letters, 0, 1) in {"T", "F"}
}

_uploads(argument, options) if options[split(argument, "=")[0]]

_uploads(argument, _) if {
	some prefix in ["@", "-d@", "--data=@", "-F"]
	startswith(argument, prefix)
}
