# METADATA
# title: Archives
# description: Where the members of an archive may land. Its directory is a write like any other.
package opensafe.archive

import data.opensafe.command
import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Members that escape
# description: Options that let members leave the directory they are unpacked in, and members named by dots.
# custom:
#   id: tool.archive.member.deny
#   severity: high
#   threat: T3
blocks contains hit.block(
	"tool.archive.member.deny", "high",
	$"`{item.program}` may unpack outside the directory it was given", item.program,
	"Unpack into a directory beneath /workspace, without options that keep absolute or dotted names.",
) if {
	escapes := config.programs.archive_escapes
	some name, places in command.at
	options := escapes[name]
	some at in places
	item := input.call.commands[at]
	not _contained(item, options)
}

_contained(item, options) if {
	is_array(item.argv)
	every argument in item.argv { _harmless(argument, options) }
	not _clustered(item)
	not _keeps_names(item)
}

_harmless(argument, _) if is_null(argument)

_harmless(argument, options) if {
	not options[split(argument, "=")[0]]
	not startswith(argument, "../")
	not contains(argument, "/../")
}

# `tar -xPf` and `tar xPf`.
_clustered(item) if {
	item.program in {"bsdtar", "gtar", "tar"}
	some at, argument in item.argv
	_letters(at, argument)
	contains(argument, "P")
}

# cpio keeps absolute and dotted names unless it is told not to.
_keeps_names(item) if {
	item.program == "cpio"
	some argument in item.argv
	_extracts(argument)
	not "--no-absolute-filenames" in item.argv
}

_extracts("--extract") := true

_extracts(argument) if {
	startswith(argument, "-")
	not startswith(argument, "--")
	contains(argument, "i")
}

_letters(1, argument) if not startswith(argument, "--")

_letters(at, argument) if {
	at > 1
	startswith(argument, "-")
	not startswith(argument, "--")
}
