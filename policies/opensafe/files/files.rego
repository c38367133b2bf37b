# METADATA
# title: Files
# description: Names and trees. What they read, write and delete is judged by the rules on reading, writing and deleting.
package opensafe.files

import data.opensafe.delete
import data.opensafe.hit
import data.opensafe.write

# METADATA
# title: Workspace names and trees
# description: >-
#   Removing, moving, making, watching, downloading and unpacking within the workspace and temporary directories.
# custom:
#   id: tool.files.workspace.allow
#   severity: info
#   threat: none
allows contains hit.allow("tool.files.workspace.allow", $"{_first} is in the workspace", _first) if {
	count(_paths) > 0
	every path in input.call.reads { write.within(path) }
	every path in input.call.writes { write.within(path) }
	every path in input.call.deletes { delete.allowed(path) }
}

_paths contains path.path if some path in input.call.reads

_paths contains path.path if some path in input.call.writes

_paths contains path.path if some path in input.call.deletes

_first := min(_paths)
