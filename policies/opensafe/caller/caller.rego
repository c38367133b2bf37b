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
#   threat: S1
blocks contains hit.block(
	"caller.unknown.deny", "critical",
	$"the caller {_name} has no role known here", _name,
	"Give the principal a role in the daemon's configuration, or define its role in the policy data.",
) if {
	not _known
}

# METADATA
# title: Banned callers
# description: An operator banned the principal or this agent of it.
# custom:
#   id: caller.ban.deny
#   severity: critical
#   threat: E7
blocks contains hit.block(
	"caller.ban.deny", "critical",
	$"{_name} is banned", _name, "Ask an operator to lift the ban (`opensafe agent unban`).",
) if {
	not input.session.banned == false
}

# METADATA
# title: Tools of a role
# description: One of the caller's roles must have the tool.
# custom:
#   id: caller.role.tools
#   severity: high
#   threat: E7
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
#   threat: E7
sandbox_blocks contains hit.block(
	"caller.role.tools", "high",
	$"no role of {_name} may make a sandbox", "Sandbox", $"Give a role of {_name} the tool Sandbox.",
) if {
	not _has("Sandbox")
}

# METADATA
# title: Users of a role
# description: >-
#   A call that asks to run or write as a user of the image needs one of the caller's roles to have that user there. Whoever
#   has uid 0 is root, whatever the image calls it.
# custom:
#   id: caller.user.role
#   severity: high
#   threat: E2
user_blocks contains hit.block(
	"caller.user.role", "high",
	$"no role of {_name} may run as {_user} in {_template}", _user,
	$"Leave the user out, or add {_user} to users of the role in the site's policy data.",
) if {
	not input.call.user == null
	not users[_user]
}

# METADATA
# title: Users of the caller
# description: Whom, beside a sandbox's own user, the caller may run as in this template.
users contains name if {
	some role in input.principal.roles
	some name, true in config.users[role][_template]
}

_user := "root" if input.call.user.uid == 0

else := object.get(input, ["call", "user", "name"], "?")

_template := object.get(input, ["sandbox", "template"], "?")

_known if {
	count(input.principal.name) > 0
	some role in input.principal.roles
	config.roles[role]
}

# All tools of one server: `mcp:NAME`.
_has(_) if {
	input.call.server != ""
	some role in input.principal.roles
	config.roles[role][$"mcp:{input.call.server}"] == true
}

_has(tool) if {
	some role in input.principal.roles
	config.roles[role][tool] == true
}

_name := object.get(input, ["principal", "name"], "?")

_tool := object.get(input, ["call", "tool"], "?")
