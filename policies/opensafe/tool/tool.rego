# METADATA
# title: Tools
# description: Only tools this site knows, each judged by its own family's rules.
package opensafe.tool

import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Unknown tools
# description: The tool must be known and belong to the family whose entry point was asked.
# custom:
#   id: tool.unknown.deny
#   severity: high
#   threat: spoofing
blocks(family) := {hit.block(
	"tool.unknown.deny", "high",
	$"{_name} is no tool of the family {family}", _name,
	"Call one of the registered tools: Bash, Exec, Read, Write or List.",
)} if {
	not _belongs(family)
}

blocks(family) := set() if _belongs(family)

_belongs(family) if {
	input.kind == "call"
	config.tools[input.call.tool] == family
}

_name := object.get(input, ["call", "tool"], "?")
