# METADATA
# title: Egress
# description: Rules on every host a call names.
package opensafe.egress

import data.opensafe.hit

# METADATA
# title: Allowed domains
# description: Only hosts of the site's allow list are reached.
# custom:
#   id: egress.domain.allowlist
#   severity: high
#   threat: information disclosure
blocks contains hit.block(
	"egress.domain.allowlist", "high",
	$"{_name(host)} is not an allowed domain", _name(host),
	$"Use an allowed domain, or add {_name(host)} to hosts.allowed in the site's policy data.",
) if {
	some host in input.call.hosts
	not host.classes.allowed == true
}

# METADATA
# title: Private addresses
# description: Loopback, private, link-local and other addresses that are not global, and names that stand for them.
# custom:
#   id: egress.address.private.deny
#   severity: critical
#   threat: information disclosure
blocks contains hit.block(
	"egress.address.private.deny", "critical",
	$"{_name(host)} is not a global address", _name(host), "Name a public host of the allow list.",
) if {
	some host in input.call.hosts
	not _global(host)
}

# METADATA
# title: Cloud metadata
# description: Names and addresses under which clouds hand out credentials.
# custom:
#   id: egress.metadata.deny
#   severity: critical
#   threat: information disclosure
blocks contains hit.block(
	"egress.metadata.deny", "critical",
	$"{_name(host)} is a cloud metadata service", _name(host), "Do without the metadata service.",
) if {
	some host in input.call.hosts
	not _clear(host, "metadata")
}

# METADATA
# title: Addresses instead of names
# description: A literal address escapes the allow list of names.
# custom:
#   id: egress.ip.literal.deny
#   severity: high
#   threat: information disclosure
blocks contains hit.block(
	"egress.ip.literal.deny", "high",
	$"{_name(host)} is an address, not a name", _name(host), "Use the host's name.",
) if {
	some host in input.call.hosts
	not host.ip_literal == false
}

# METADATA
# title: Credentials in URLs
# description: User information before the host hides the host and leaks the password.
# custom:
#   id: egress.userinfo.deny
#   severity: high
#   threat: spoofing
blocks contains hit.block(
	"egress.userinfo.deny", "high",
	$"the URL of {_name(host)} carries user information", _name(host), "Leave out what stands before the @.",
) if {
	some host in input.call.hosts
	not host.userinfo == false
}

_name(host) := object.get(host, "name", "?")

_global(host) if {
	_clear(host, "private")
	_clear(host, "loopback")
	_clear(host, "link_local")
}

_clear(host, class) if {
	is_object(host.classes)
	not host.classes[class]
}
