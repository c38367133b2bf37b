# METADATA
# title: Deleting
# description: Rules on every path a call deletes.
package opensafe.delete

import data.opensafe.command
import data.opensafe.hit
import data.opensafe.write

# METADATA
# title: Scope of deletion
# description: >-
#   Named paths of the workspace and of temporary directories; never their roots, never all at once, never a
#   repository's own files.
# custom:
#   id: tool.delete.scope.deny
#   severity: critical
#   threat: T16
blocks contains hit.block(
	"tool.delete.scope.deny", "critical",
	$"deletes {path.path}, which is outside the workspace, its root or a repository's own", path.path,
	"Delete named paths beneath /workspace or /tmp only; with find, restrict by -name.",
) if {
	some path in input.call.deletes
	not allowed(path)
}

# METADATA
# title: History files deleted
# description: Files of a history that a call deletes, by a command or a file tool.
# custom:
#   id: tool.bash.history.deny
#   severity: high
#   threat: R4
blocks contains hit.block(
	"tool.bash.history.deny", "high",
	$"{path.path} is a command history", path.path, "Leave histories alone.",
) if {
	some path in input.call.deletes
	not write.clear(path, "history")
}

# METADATA
# title: Allowed
# description: The path may be deleted.
allowed(path) if {
	write.within(path)
	not _whole(path)
	not path.classes.vcs
}

# git leaves its lock behind where it was interrupted.
allowed(path) if {
	write.within(path)
	endswith(path.path, ".lock")
	not _whole(path)
}

# `find . -name '*.pyc' -delete` names its root, but deletes only what matches.
allowed(path) if {
	path.path in {"/workspace", "/tmp", "/var/tmp"}
	_by_name
}

_whole(path) if path.path in {"/workspace", "/tmp", "/var/tmp"}

_whole(path) if {
	trim_right(path.path, "*?.[]!") == "/workspace/"
}

# `/*` and `/w*` reach beyond the workspace.
_whole(path) if {
	some mark in ["*", "?", "["]
	contains(split(path.path, "/")[1], mark)
}

# All that deletes in this call is a find that is restricted by name, or what such a find starts.
_by_name if {
	count(command.at.find) > 0
	every at in command.at.find { _restricted(input.call.commands[at].argv) }
	every item in input.call.commands { _harmless(item) }
}

_harmless(item) if not item.program in {"rm", "rmdir", "unlink", "shred", "mv", "git"}

_harmless(item) if {
	item.program == "git"
	not command.verb(item) == "clean"
}

# What find starts for each match names nothing of its own: `{}` is not known before the run.
_harmless(item) if {
	item.via == ["find"]
	every operand in array.slice(item.argv, 1, count(item.argv)) { _placeholder(operand) }
}

_placeholder(operand) if is_null(operand)

_placeholder(operand) if startswith(operand, "-")

_restricted(argv) if {
	every argument in argv { not argument in {"-o", "-or", "!", "-not", ",", "("} }
	some at, argument in argv
	argument in {"-name", "-iname", "-path", "-ipath", "-wholename"}
	trim(argv[at + 1], "*?.[]!/") != ""
	every place, acting in argv { _later(place, acting, at) }
}

# What acts stands behind the test that restricts it: find reads from left to right.
_later(place, _, at) if place > at

_later(_, acting, _) if not acting in {"-delete", "-exec", "-execdir", "-ok", "-okdir"}
