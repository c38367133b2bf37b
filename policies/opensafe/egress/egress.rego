# METADATA
# title: Egress
# description: Rules on every host a call names and every host a connection is for.
package opensafe.egress

import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Allowed domains
# description: Only hosts of the site's allow list are reached.
# custom:
#   id: egress.domain.allowlist
#   severity: high
#   threat: I3
blocks contains hit.block(
	"egress.domain.allowlist", "high",
	$"{name} is not an allowed domain", name,
	$"Use an allowed domain, or add {name} to hosts.allowed in the site's policy data.",
) if {
	some name in {_name(host) | some host in _named; not host.classes.allowed == true}
}

# METADATA
# title: Ports
# description: >-
#   Ports of the site's list, and of a listed endpoint the one that is listed with its name. A call need not name one; a
#   connection has one, a DNS question has none.
# custom:
#   id: egress.port.allowlist
#   severity: high
#   threat: I3
blocks contains hit.block(
	"egress.port.allowlist", "high",
	$"the port {port} of {name} is not allowed", $"{name}:{port}",
	$"Use the host's https port, or add {name}:{port} to endpoints in the site's policy data.",
) if {
	some host in _named
	not _port(host)
	name := _name(host)
	port := object.get(host, "port", "?")
}

# METADATA
# title: Private addresses
# description: Loopback, private, link-local and other addresses that are not global, and names that stand for them.
# custom:
#   id: egress.address.private.deny
#   severity: critical
#   threat: I3
blocks contains hit.block(
	"egress.address.private.deny", "critical",
	$"{name} is not a global address", name, "Name a public host of the allow list.",
) if {
	some name in {_name(host) | some host in _reached; not _global(host)}
}

# METADATA
# title: Cloud metadata
# description: Names and addresses under which clouds hand out credentials.
# custom:
#   id: egress.metadata.deny
#   severity: critical
#   threat: I3
blocks contains hit.block(
	"egress.metadata.deny", "critical",
	$"{name} is a cloud metadata service", name, "Do without the metadata service.",
) if {
	some name in {_name(host) | some host in _reached; not _clear(host, "metadata")}
}

# METADATA
# title: Addresses instead of names
# description: A literal address escapes the allow list of names.
# custom:
#   id: egress.ip.literal.deny
#   severity: high
#   threat: I3
blocks contains hit.block(
	"egress.ip.literal.deny", "high",
	$"{name} is an address, not a name", name, "Use the host's name.",
) if {
	some name in {_name(host) | some host in _named; not host.ip_literal == false}
}

# METADATA
# title: Credentials in URLs
# description: User information before the host hides the host and leaks the password.
# custom:
#   id: egress.userinfo.deny
#   severity: high
#   threat: I3
blocks contains hit.block(
	"egress.userinfo.deny", "high",
	$"the URL of {name} carries user information", name, "Leave out what stands before the @.",
) if {
	some name in {_name(host) | some host in _named; not host.userinfo == false}
}

_named := array.concat(
	[host | some host in input.call.hosts],
	[host | host := input.egress.host; is_object(input.egress)],
)

# The names first, then a hit for each: many hosts, such as one on many ports, have one name.
_reached := array.concat(_named, [address |
	address := input.egress.address
	is_object(address)
])

_port(host) if config.ports[$"{host.port}"]

_port(host) if {
	config.endpoints[$"{host.name}:{host.port}"]
	not is_object(input.egress)
}

_port(host) if {
	config.endpoints[$"{host.name}:{host.port}"]
	input.egress.layer == "tcp"
}

_port(host) if {
	host.port == null
	not is_object(input.egress)
}

_port(host) if {
	host.port == null
	input.egress.layer == "dns"
}

_name(host) := name if name := host.name

else := "?"

_global(host) if {
	_clear(host, "private")
	_clear(host, "loopback")
	_clear(host, "link_local")
}

_clear(host, class) if {
	is_object(host.classes)
	not host.classes[class]
}
