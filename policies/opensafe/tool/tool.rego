# METADATA
# title: Tools
# description: Only tools this site knows, each judged by its own family's rules.
package opensafe.tool

import data.opensafe.command
import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Unknown tools
# description: The tool must be known and belong to the family whose entry point was asked.
# custom:
#   id: tool.unknown.deny
#   severity: high
#   threat: S5
blocks(family) := {hit.block(
	"tool.unknown.deny", "high",
	$"{_name} is no tool of the family {family}", _name,
	"Call a registered tool by its exact name, such as Bash, Read or Write, or one that the site registered.",
)} if {
	not _belongs(family)
}

blocks(family) := set() if _belongs(family)

# METADATA
# title: Pinned descriptions
# description: A tool's description and schema are those that were approved.
# custom:
#   id: tool.schema.pinned
#   severity: high
#   threat: T15
foreign_blocks contains hit.block(
	"tool.schema.pinned", "high",
	$"the description of {_name} is not the one that was approved", _digest,
	"Ask an operator to look at the new description and to pin it.",
) if {
	not _pinned
}

# METADATA
# title: Servers
# description: Tools of other servers (MCP) only from the site's list.
# custom:
#   id: mcp.server.allowlist
#   severity: high
#   threat: S5
foreign_blocks contains hit.block(
	"mcp.server.allowlist", "high",
	$"the server {_server} is not listed, or not for {_name}", _server,
	$"Add {_server} and its tools to servers in the site's policy data.",
) if {
	not _listed
}

# METADATA
# title: Risk forbidden
# description: Tools of a class of risk that the site forbids, or of none it knows.
# custom:
#   id: tool.risk.review
#   severity: high
#   threat: S5
foreign_blocks contains hit.block(
	"tool.risk.review", "high",
	$"{_name} has the risk {_risk}, which is not allowed here", _risk, "Use a tool of lower risk, or change risks in the site's policy data.",
) if {
	not _risk_accepted
}

# METADATA
# title: Risk reviewed
# description: Tools of a class of risk that a human looks at, by default those of high risk.
# custom:
#   id: tool.risk.review
#   severity: medium
#   threat: S5
reviews contains hit.review(
	"tool.risk.review", "medium",
	$"{_name} has the risk {_risk}", _risk, "Ask for a review, or change risks in the site's policy data.",
) if {
	not config.risks[input.call.risk] == "allow"
}

# METADATA
# title: Acting on what others wrote
# description: >-
#   A session that read what others wrote asks for a tool that acts, which their text may have told it to. By class of
#   risk, in tainted_risks; without that setting a human looks at every one.
# custom:
#   id: tool.taint.review
#   severity: high
#   threat: S6
reviews contains hit.review(
	"tool.taint.review", "high",
	$"the session has read what others wrote, and {_name} has the risk {_risk}", "untrusted.read",
	"Ask for a review and say which of the user's words ask for this, or use a new session that has not read it.",
) if {
	not config.tainted_risks[input.call.risk] == "allow"
	not _unread
}

# METADATA
# title: Acting on what others wrote, forbidden
# description: The same for a class of risk that tainted_risks blocks.
# custom:
#   id: tool.taint.review
#   severity: high
#   threat: S6
foreign_blocks contains hit.block(
	"tool.taint.review", "high",
	$"the session has read what others wrote, and {_name} has the risk {_risk}", "untrusted.read",
	"Use a new session that has not read it, or change tainted_risks in the site's policy data.",
) if {
	config.tainted_risks[input.call.risk] == "block"
	not _unread
}

# METADATA
# title: The site's tools
# description: A tool that a manifest or a listed server offers, with nothing against its paths and hosts.
# custom:
#   id: tool.site.allow
#   severity: info
#   threat: none
allows contains hit.allow("tool.site.allow", $"{_name} is one of the site's tools", _name) if {
	command.listed
	input.call.opaque == false
	config.risks[input.call.risk] == "allow"
}

_belongs(family) if {
	input.kind == "call"
	config.tools[input.call.tool] == family
}

# A server's tools are its own names: mcp.server.allowlist decides.
_belongs("tool") if {
	input.kind == "call"
	count(input.call.server) > 0
}

# Nothing that others wrote was read.
_unread if {
	is_array(input.session.taints)
	not "untrusted.read" in input.session.taints
}

_risk_accepted if config.risks[input.call.risk] in {"allow", "review"}

_pinned if {
	input.call.server == ""
	input.call.description_digest == input.call.pinned_digest
}

_pinned if {
	count(input.call.description_digest) > 0
	input.call.description_digest == input.call.pinned_digest
}

_listed if input.call.server == ""

_listed if config.servers[input.call.server] == "any"

_listed if config.servers[input.call.server][input.call.tool] == true

_server := object.get(input, ["call", "server"], "?")

_risk := object.get(input, ["call", "risk"], "?")

_digest := object.get(input, ["call", "description_digest"], "?")

_name := object.get(input, ["call", "tool"], "?")
