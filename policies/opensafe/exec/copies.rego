package opensafe.exec

import data.opensafe.command
import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Other names
# description: A copy of one of the system's programs, which would not be known by its name any more.
# custom:
#   id: tool.exec.path.deny
#   severity: high
#   threat: T2
blocks contains hit.block(
	"tool.exec.path.deny", "high",
	$"{path} is one of the system's programs, and a copy of it could run under any name", path,
	"Start the program by its name, where it is.",
) if {
	count(input.call.writes) > 0
	some path in _programs_read
}

_programs_read contains path.path if {
	some path in input.call.reads
	parts := split(path.path, "/")
	config.programs.directories[trim_suffix(path.path, parts[count(parts) - 1])]
}

# A directory of them as a whole.
_programs_read contains path.path if {
	some path in input.call.reads
	config.programs.directories[$"{path.path}/"]
	some program in ["cp", "install", "mv", "rsync", "tar"]
	command.at[program]
}
