# METADATA
# title: Caller
# description: Who may call which tool.
package opensafe.caller

import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Known callers
# description: A principal with a name and at least one role this site knows.
# custom:
#   id: caller.unknown.deny
#   severity: critical
#   threat: spoofing
blocks contains hit.block(
	"caller.unknown.deny", "critical",
	$"the caller {_name} has no role known here", _name,
	"Give the principal a role in the daemon's configuration, or define its role in the policy data.",
) if {
	not _known
}

# METADATA
# title: Tools of a role
# description: One of the caller's roles must have the tool.
# custom:
#   id: caller.role.tools
#   severity: high
#   threat: elevation of privilege
tool_blocks contains hit.block(
	"caller.role.tools", "high",
	$"no role of {_name} has the tool {_tool}", _tool, $"Give a role of {_name} the tool {_tool}.",
) if {
	not _has(_tool)
}

# METADATA
# title: Sandboxes of a role
# description: One of the caller's roles must have Sandbox to make one.
# custom:
#   id: caller.role.tools
#   severity: high
#   threat: elevation of privilege
sandbox_blocks contains hit.block(
	"caller.role.tools", "high",
	$"no role of {_name} may make a sandbox", "Sandbox", $"Give a role of {_name} the tool Sandbox.",
) if {
	not _has("Sandbox")
}

_known if {
	count(input.principal.name) > 0
	some role in input.principal.roles
	config.roles[role]
}

_has(tool) if {
	some role in input.principal.roles
	config.roles[role][tool] == true
}

_name := object.get(input, ["principal", "name"], "?")

_tool := object.get(input, ["call", "tool"], "?")
