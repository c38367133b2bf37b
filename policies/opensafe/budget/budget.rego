# METADATA
# title: Budget
# description: What a session may use up in all, and a principal within a day. What is not counted is over its limit.
package opensafe.budget

import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Calls
# description: The number of calls, bounded by the session's own limit and by the site's ceilings.
# custom:
#   id: budget.calls.ceiling
#   severity: medium
#   threat: D8
blocks contains hit.block("budget.calls.ceiling", "medium", _reason("calls"), _used("calls"), _remedy) if {
	not _within("calls")
}

# METADATA
# title: Time
# description: Seconds that calls ran.
# custom:
#   id: budget.wall.ceiling
#   severity: medium
#   threat: D8
blocks contains hit.block("budget.wall.ceiling", "medium", _reason("wall_s"), _used("wall_s"), _remedy) if {
	not _within("wall_s")
}

# METADATA
# title: Cost
# description: Tokens and money, as far as observed or declared.
# custom:
#   id: budget.cost.ceiling
#   severity: high
#   threat: D8
blocks contains hit.block("budget.cost.ceiling", "high", _reason(key), _used(key), _remedy) if {
	some key in ["tokens", "cost_microusd"]
	not _within(key)
}

# METADATA
# title: Bytes sent
# description: Bytes sent to the network, those of this connection included.
# custom:
#   id: egress.bytes.budget
#   severity: high
#   threat: D8
network_blocks contains hit.block("egress.bytes.budget", "high", _reason("egress_bytes"), _used("egress_bytes"), _remedy) if {
	not _bytes
}

# METADATA
# title: Bytes received
# description: Bytes received from the network, those of this connection included.
# custom:
#   id: egress.ingress.budget
#   severity: medium
#   threat: D8
network_blocks contains hit.block("egress.ingress.budget", "medium", _reason("ingress_bytes"), _used("ingress_bytes"), _remedy) if {
	not _received
}

# METADATA
# title: One host
# description: Requests to one host, and bytes sent to it and received, of a session; this connection's bytes included.
# custom:
#   id: egress.host.budget
#   severity: medium
#   threat: D8
network_blocks contains hit.block(
	"egress.host.budget", "medium",
	$"the session has used up the {limit} {key} that it may have with {_host}", $"{key} of {_host}",
	"Open a new session, or raise the host's ceiling in ceilings.hosts of the site's policy data.",
) if {
	input.kind == "egress"
	some key, limit in _host_limits
	not _host_within(key, limit)
}

# METADATA
# title: Requests
# description: Connections and requests to the network.
# custom:
#   id: egress.requests.budget
#   severity: medium
#   threat: D8
network_blocks contains hit.block("egress.requests.budget", "medium", _reason("requests"), _used("requests"), _remedy) if {
	not _within("requests")
}

_within(key) if {
	used := input.budget.usage[key]
	used >= 0
	used < config.ceilings.session[key]
	spent := input.budget.principal[key]
	spent >= 0
	spent < config.ceilings.principal[key]
	not _at_own_limit(key)
}

_at_own_limit(key) if input.budget.usage[key] >= input.budget.limits[key]

_bytes if {
	_within("egress_bytes")
	not input.kind == "egress"
}

_bytes if {
	_within("egress_bytes")
	input.egress.bytes_sent >= 0
	input.budget.usage.egress_bytes + input.egress.bytes_sent <= _limit("egress_bytes")
}

_received if {
	_within("ingress_bytes")
	not input.kind == "egress"
}

_received if {
	_within("ingress_bytes")
	input.egress.bytes_received >= 0
	input.budget.usage.ingress_bytes + input.egress.bytes_received <= _limit("ingress_bytes")
}

_host_limits := object.union(config.ceilings.host, object.get(config.ceilings.hosts, _host, {}))

_host_within("requests", limit) if _below(input.egress.host_requests, 0, limit)

_host_within("egress_bytes", limit) if _below(input.egress.host_sent, input.egress.bytes_sent, limit)

_host_within("ingress_bytes", limit) if _below(input.egress.host_received, input.egress.bytes_received, limit)

_below(used, own, limit) if {
	used >= 0
	used < limit
	own >= 0
	used + own <= limit
}

_host := object.get(input, ["egress", "host", "name"], "?")

_limit(key) := min({config.ceilings.session[key], object.get(input, ["budget", "limits", key], config.ceilings.session[key])})

_reason(key) := $"{_used(key)} of {_limit(key)} {key} are used, and by the principal within a day {_spent(key)} of {config.ceilings.principal[key]}"

_remedy := "Open a new session; or wait, where it is the principal's day that is used up."

_used(key) := object.get(input, ["budget", "usage", key], "an unknown number of")

_spent(key) := object.get(input, ["budget", "principal", key], "an unknown number of")
