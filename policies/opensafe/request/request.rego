# METADATA
# title: Requests
# description: >-
#   Rules on the request inside a connection, where it can be read: plain HTTP, and TLS of names that end in the gateway.
package opensafe.request

import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Paths
# description: Hosts for which the site lists paths are asked for these alone.
# custom:
#   id: egress.path.allowlist
#   severity: medium
#   threat: I3
blocks contains hit.block(
	"egress.path.allowlist", "medium",
	$"the path {_path} of {_host} is not allowed", _path,
	$"Use a listed path of {_host}, or add this one to requests in the site's policy data.",
) if {
	not _path_allowed
}

# METADATA
# title: Requests that can't be read
# description: Where the site lists methods or paths of a host, its TLS is not passed through unread.
# custom:
#   id: egress.request.unseen.deny
#   severity: high
#   threat: I3
blocks contains hit.block(
	"egress.request.unseen.deny", "high",
	$"methods or paths of {_host} are listed, and inside {_layer} they can't be read", _host,
	$"Use http or https, or have the operator add {_host} to egress.terminate.",
) if {
	not _seen
}

# METADATA
# title: Placeholders astray
# description: The placeholder of a credential stands only in the header and for the host that it is bound to.
# custom:
#   id: egress.credential.deny
#   severity: high
#   threat: I3
blocks contains hit.block(
	"egress.credential.deny", "high",
	$"the placeholder of a credential is sent to {_host} where none belongs", _host,
	"Send it over https to the host of the credential, in its header, as the whole token.",
) if {
	not _in_place
}

_path_allowed if {
	input.egress.layer in {"dns", "tls", "tcp"}
	is_string(input.egress.path)
}

_path_allowed if {
	is_string(input.egress.path)
	is_string(input.egress.host.name)
	not config.requests[input.egress.host.name].paths
}

_path_allowed if {
	some pattern in config.requests[input.egress.host.name].paths
	_matches(pattern, input.egress.path)
}

_matches(pattern, path) if pattern == path

_matches(pattern, path) if {
	endswith(pattern, "*")
	startswith(path, trim_suffix(pattern, "*"))
}

_seen if {
	input.egress.layer in {"dns", "http"}
	is_boolean(input.egress.terminated)
}

_seen if input.egress.terminated == true

_seen if {
	is_boolean(input.egress.terminated)
	is_string(input.egress.host.name)
	not config.requests[input.egress.host.name]
}

_in_place if input.egress.credential == ""

_in_place if {
	input.egress.credential == "put"
	input.egress.layer == "http"
	input.egress.terminated == true
}

_path := object.get(input, ["egress", "path"], "?")

_host := object.get(input, ["egress", "host", "name"], "?")

_layer := object.get(input, ["egress", "layer"], "?")
