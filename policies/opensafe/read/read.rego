# METADATA
# title: Reading
# description: Rules on every path a call reads, whether by a file tool or as an operand of a command.
package opensafe.read

import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Secrets
# description: Password files, keys, cloud and cluster credentials, tokens, browser profiles, .env files.
# custom:
#   id: tool.read.secrets.block
#   severity: critical
#   threat: I6
blocks contains hit.block(
	"tool.read.secrets.block", "critical",
	$"{path.path} holds secrets", path.path, "Read another file; secrets are not for agents.",
) if {
	some path in input.call.reads
	not _clear(path, "secret")
}

# METADATA
# title: Processes
# description: Memory, environment, descriptors and roots of processes, and the kernel's own files.
# custom:
#   id: tool.read.proc.deny
#   severity: high
#   threat: I2
blocks contains hit.block(
	"tool.read.proc.deny", "high",
	$"{path.path} shows another process or the kernel", path.path, "Use `ps` or /proc/meminfo and the like.",
) if {
	some path in input.call.reads
	not _clear(path, "proc")
}

# METADATA
# title: Devices
# description: Device nodes, except null, zero, random and the standard streams.
# custom:
#   id: tool.read.device.deny
#   severity: high
#   threat: I2
blocks contains hit.block(
	"tool.read.device.deny", "high",
	$"{path.path} is a device", path.path, "Read a regular file beneath /workspace.",
) if {
	some path in input.call.reads
	not _no_device(path)
}

# METADATA
# title: Command history
# description: Histories of shells and clients hold what people typed, passwords included.
# custom:
#   id: tool.read.history.block
#   severity: high
#   threat: I6
blocks contains hit.block(
	"tool.read.history.block", "high",
	$"{path.path} is a command history", path.path, "Use `git log` for what happened in the workspace.",
) if {
	some path in input.call.reads
	not _clear(path, "history")
}

# METADATA
# title: Reads by commands
# description: A program may read the workspace, temporary files and the system's own files, nothing else.
# custom:
#   id: default.deny
#   severity: medium
#   threat: E5
command_blocks contains hit.block(
	"default.deny", "medium",
	$"no rule allows reading {path.path}", path.path, "Read beneath /workspace or /tmp.",
) if {
	some path in input.call.reads
	not _known(path)
}

# METADATA
# title: Size
# description: The most the Read tool may ask for; without a length the grant's output limit binds it.
# custom:
#   id: tool.read.size.limit
#   severity: medium
#   threat: D2
tool_blocks contains hit.block(
	"tool.read.size.limit", "medium",
	$"{_length} bytes are more than {config.ceilings.read_bytes}", _length,
	$"Read at most {config.ceilings.read_bytes} bytes a call.",
) if {
	not _small
}

# METADATA
# title: Workspace reads
# description: Files and directories of the workspace and of temporary directories.
# custom:
#   id: tool.read.workspace.allow
#   severity: info
#   threat: none
allows contains hit.allow(
	"tool.read.workspace.allow",
	$"{input.call.reads[0].path} is in the workspace", input.call.reads[0].path,
) if {
	_all_in_workspace
}

# METADATA
# title: Workspace listings
# description: Directories of the workspace and of temporary directories.
# custom:
#   id: tool.list.workspace.allow
#   severity: info
#   threat: none
list_allows contains hit.allow(
	"tool.list.workspace.allow",
	$"{input.call.reads[0].path} is in the workspace", input.call.reads[0].path,
) if {
	_all_in_workspace
}

_all_in_workspace if {
	count(input.call.reads) > 0
	every path in input.call.reads { _inside(path) }
}

_clear(path, class) if {
	is_object(path.classes)
	not path.classes[class]
}

_no_device(path) if _clear(path, "device")

_no_device(path) if path.classes.stream == true

_inside(path) if path.classes.workspace == true

_inside(path) if path.classes.tmp == true

_known(path) if _inside(path)

_known(path) if path.classes.system == true

_known(path) if path.classes.stream == true

_known(path) if path.path == "/"

_small if {
	is_object(input.call.arguments)
	_length >= 0
	_length <= config.ceilings.read_bytes
}

_length := object.get(input, ["call", "arguments", "length"], 0)
