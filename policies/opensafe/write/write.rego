# METADATA
# title: Writing
# description: Rules on every path a call writes, whether by the Write tool, a redirection or an operand.
package opensafe.write

import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Where to write
# description: Writes go to the workspace and to temporary directories.
# custom:
#   id: tool.write.path.allowlist
#   severity: high
#   threat: T3
blocks contains hit.block(
	"tool.write.path.allowlist", "high",
	$"{path.path} is outside the workspace", path.path, "Write beneath /workspace or /tmp.",
) if {
	some path in input.call.writes
	not _target(path)
}

# METADATA
# title: Version control
# description: Files of version control run code when it is next used (hooks, filters, fsmonitor).
# custom:
#   id: tool.write.vcs.deny
#   severity: critical
#   threat: T14
blocks contains hit.block(
	"tool.write.vcs.deny", "critical",
	$"{path.path} belongs to version control", path.path, "Use git commands; leave its files alone.",
) if {
	some path in input.call.writes
	not clear(path, "vcs")
}

# METADATA
# title: Start-up files
# description: Files that shells, interpreters and the system run on their own.
# custom:
#   id: tool.write.rc.deny
#   severity: critical
#   threat: T14
blocks contains hit.block(
	"tool.write.rc.deny", "critical",
	$"{path.path} is run at start-up", path.path, "Write a script beneath /workspace and run it by name.",
) if {
	some path in input.call.writes
	not clear(path, "rc")
}

# METADATA
# title: Continuous integration and build entry points
# description: Files that other people's machines, editors and builds run.
# custom:
#   id: tool.write.ci.review
#   severity: medium
#   threat: T14
reviews contains hit.review(
	"tool.write.ci.review", "medium",
	$"{path.path} is run by builds, editors or other machines", path.path,
	"Ask for a review, or put the change into a file that these do not run.",
) if {
	some path in input.call.writes
	not _no_entry(path)
}

# METADATA
# title: Removal of continuous integration
# description: A deletion of what other machines run, as of a check or a scan.
# custom:
#   id: tool.write.ci.review
#   severity: medium
#   threat: T14
reviews contains hit.review(
	"tool.write.ci.review", "medium",
	$"{path.path} is run by other machines, and would be no more", path.path,
	"Ask for a review, or leave the file where it is.",
) if {
	some path in input.call.deletes
	path.classes.ci == true
	some place in ["/.github/workflows/", "/.gitlab-ci", "/.circleci/", "/Jenkinsfile", "/.pre-commit-config", "/.husky/"]
	contains(path.path, place)
}

# METADATA
# title: Programs in search directories
# description: Executables where programs are looked for by name.
# custom:
#   id: tool.write.binary.review
#   severity: medium
#   threat: T14
reviews contains hit.review(
	"tool.write.binary.review", "medium",
	$"{path.path} is in a directory that programs are found in", path.path,
	"Put the program beneath /workspace, outside bin directories, and start it by its path.",
) if {
	some path in input.call.writes
	not clear(path, "bin")
}

# METADATA
# title: Size
# description: The largest file the Write tool may write.
# custom:
#   id: tool.write.size.limit
#   severity: medium
#   threat: D2
tool_blocks contains hit.block(
	"tool.write.size.limit", "medium",
	$"{_size} bytes are more than {_most}", _size,
	$"Write at most {_most} bytes a call.",
) if {
	not _small
}

# METADATA
# title: Workspace writes
# description: Files of the workspace and of temporary directories.
# custom:
#   id: tool.write.workspace.allow
#   severity: info
#   threat: none
allows contains hit.allow(
	"tool.write.workspace.allow",
	$"{input.call.writes[0].path} is in the workspace", input.call.writes[0].path,
) if {
	count(input.call.writes) > 0
	every path in input.call.writes { within(path) }
}

# METADATA
# title: Within
# description: The path lies in the workspace or in a temporary directory.
within(path) if path.classes.workspace == true

within(path) if path.classes.tmp == true

_target(path) if {
	within(path)
	not _keeps_trust(path)
}

# Keys and logins of a user's programs: who writes here decides whom the machine trusts.
_keeps_trust(path) if {
	path.classes.secret == true
	some place in ["/.ssh/", "/.gnupg/", "/.aws/", "/.kube/", "/.docker/", "/.netrc/", "/.git-credentials/", "/.pgpass/"]
	contains($"{path.path}/", place)
}

_target(path) if path.classes.stream == true

# By their ends, which no class of paths has: a pattern such as `*.o` would be held to name them.
_no_entry(path) if {
	clear(path, "ci")
	not endswith(path.path, ".mk")
	not endswith(path.path, ".code-workspace")
	not contains(path.path, "/Jenkinsfile.")
}

# METADATA
# title: Clear
# description: The path is known not to be of a class; without its classes nothing is.
clear(path, class) if {
	is_object(path.classes)
	not path.classes[class]
}

_small if {
	input.call.size >= 0
	input.call.size <= _most
}

_most := config.ceilings.write_bytes if not _streamed

_most := config.ceilings.streamed_bytes if _streamed

_streamed if input.call.content_opaque == true

_size := object.get(input, ["call", "size"], "unknown")
