# METADATA
# title: Links
# description: Where links may point. The file tools follow none out of their root; programs do.
package opensafe.link

import data.opensafe.command
import data.opensafe.hit

# METADATA
# title: Links that leave
# description: A symbolic or hard link whose target is outside the workspace and temporary directories.
# custom:
#   id: tool.write.symlink.deny
#   severity: high
#   threat: T3
blocks contains hit.block(
	"tool.write.symlink.deny", "high",
	$"`{item.program}` links to something outside the workspace", concat(" ", [part | some part in item.argv; is_string(part)]),
	"Link to a path beneath /workspace or /tmp, or copy the file.",
) if {
	some at in _links
	item := input.call.commands[at]
	not _stays(item)
}

_links contains at if {
	some program in ["ln", "link"]
	some at in command.at[program]
}

_links contains at if {
	some at in command.at.cp
	some argument in input.call.commands[at].argv
	_makes_link(argument)
}

_makes_link("--symbolic-link") := true

_makes_link("--link") := true

_makes_link(argument) if {
	startswith(argument, "-")
	not startswith(argument, "--")
	trim(argument, "-abdfilnprstuvxHLPRTZ") == ""
	trim_left(argument, "-abdfinprtuvxHLPRTZ") != ""
}

_stays(item) if {
	is_array(item.argv)
	last := item.argv[count(item.argv) - 1]
	depth := _depth(last)
	every argument in array.slice(item.argv, 1, count(item.argv)) { _inside(argument, depth) }
}

# A pattern, or what is not known before the run: what it may name is listed as read, or the call is opaque.
_inside(argument, _) if {
	is_null(argument)
	every path in input.call.reads { _within(path) }
}

_inside(argument, _) if {
	is_string(argument)
	not startswith(argument, "/")
	not contains(argument, "..")
}

_inside(argument, _) if {
	some root in ["/workspace/", "/tmp/", "/var/tmp/"]
	startswith(argument, root)
	not contains(argument, "..")
}

_inside("/workspace", _) := true

_inside("/tmp", _) := true

# `ln -s ../lib/x bin/x`: as many steps up as the link lies deep.
_inside(argument, depth) if {
	is_string(argument)
	not startswith(argument, "/")
	count(split(argument, "../")) - 1 <= depth
	not _up(argument)
}

# Beneath another directory than the workspace's root: what it resolves to is listed as read.
_inside(argument, _) if {
	not startswith(argument, "/")
	contains(argument, "..")
	count(input.call.reads) > 0
	every path in input.call.reads { _within(path) }
}

_up(argument) if argument == ".."

_up(argument) if endswith(argument, "/..")

_depth(last) := count(split(last, "/")) - 1 if is_string(last)

_depth(last) := 0 if is_null(last)

_within(path) if path.classes.workspace == true

_within(path) if path.classes.tmp == true
