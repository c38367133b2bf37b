# METADATA
# title: Connections
# description: Rules on one connection or DNS question as the gateway saw it, beside those on its host (egress).
package opensafe.connection

import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: One name
# description: The names in CONNECT or Host and in TLS's SNI are the name that was judged.
# custom:
#   id: egress.sni.mismatch.deny
#   severity: critical
#   threat: I3
blocks contains hit.block(
	"egress.sni.mismatch.deny", "critical",
	$"the client names {_names} in different places", _names, "Use one name in URL, Host and SNI.",
) if {
	not _agree
}

# METADATA
# title: Methods
# description: HTTP methods, where they can be seen.
# custom:
#   id: egress.method.allowlist
#   severity: medium
#   threat: I3
blocks contains hit.block(
	"egress.method.allowlist", "medium",
	$"the method {_method} is not allowed", _method, "Use GET or HEAD, or add the method to methods in the site's policy data.",
) if {
	not _method_allowed
}

# METADATA
# title: Changes of protocol
# description: After a WebSocket's request nothing is seen but bytes, so hosts for it are listed. No other upgrade is.
# custom:
#   id: egress.upgrade.deny
#   severity: high
#   threat: I3
blocks contains hit.block(
	"egress.upgrade.deny", "high",
	$"{_host} may not change the protocol to {_upgrade}", _upgrade,
	$"Use https, or add {_host} to hosts.websocket in the site's policy data.",
) if {
	not _upgrade_allowed
}

# METADATA
# title: Names that carry data
# description: Names whose labels are too long, too random or too many, asked for by DNS or named to the gateway.
# custom:
#   id: egress.dns.label.deny
#   severity: high
#   threat: I3
blocks contains hit.block(
	"egress.dns.label.deny", "high",
	$"the name's {key} is {_label(key)}, more than {limit}", $"{key}={_label(key)}", $"Ask for names whose {key} is at most {limit}.",
) if {
	some key, limit in config.ceilings.dns
	not _at_most(key, limit)
}

# METADATA
# title: Not granted
# description: No running call's grant covers the name.
# custom:
#   id: egress.domain.allowlist
#   severity: high
#   threat: I3
blocks contains hit.block(
	"egress.domain.allowlist", "high",
	$"no running call was granted {_host}", _host, "Name the host literally in the call that needs it.",
) if {
	not input.egress.granted == true
}

# METADATA
# title: Facts missing
# description: This entry point judges connections only, and all that is known of them.
# custom:
#   id: default.deny
#   severity: high
#   threat: E5
blocks contains hit.block(
	"default.deny", "high",
	"the facts of this connection are incomplete", _host, "Report this: the gateway must send all facts.",
) if {
	not _complete
}

# METADATA
# title: Uploads
# description: A large body, even to an allowed host.
# custom:
#   id: egress.upload.review
#   severity: medium
#   threat: I3
reviews contains hit.review(
	"egress.upload.review", "medium",
	$"{_sent} bytes were sent to {_host}", _sent, $"Send at most {config.ceilings.upload_bytes} bytes a connection.",
) if {
	not _small
}

# METADATA
# title: Granted connections
# description: A connection to an allowed host that a running call was granted.
# custom:
#   id: egress.domain.allow
#   severity: info
#   threat: none
allows contains hit.allow("egress.domain.allow", $"{_host} was granted", _host) if {
	_complete
	input.egress.granted == true
	input.egress.host.classes.allowed == true
}

_complete if {
	input.kind == "egress"
	input.egress.layer in {"dns", "tls", "http", "tcp"}
	count(input.egress.host.name) > 0
}

_agree if {
	input.egress.layer in {"dns", "tcp"}
	_same_or_none(input.egress.sni)
	_same_or_none(input.egress.authority)
}

_agree if {
	input.egress.layer == "tls"
	_same(input.egress.sni)
	_same_or_none(input.egress.authority)
}

_agree if {
	input.egress.layer == "http"
	_same(input.egress.authority)
	_same_or_none(input.egress.sni)
}

_same_or_none("") := true

_same_or_none(name) if _same(name)

_same(name) if trim_suffix(lower(split(name, ":")[0]), ".") == input.egress.host.name

_method_allowed if input.egress.layer in {"dns", "tls", "tcp"}

_method_allowed if {
	not config.requests[input.egress.host.name].methods
	config.methods[input.egress.method]
}

_method_allowed if config.requests[input.egress.host.name].methods[input.egress.method]

_upgrade_allowed if input.egress.upgrade == ""

_upgrade_allowed if {
	input.egress.layer == "http"
	input.egress.upgrade == "websocket"
	input.egress.host.classes.websocket == true
}

_at_most(key, limit) if {
	input.egress.label[key] >= 0
	input.egress.label[key] <= limit
}

_small if {
	input.egress.bytes_sent >= 0
	input.egress.bytes_sent <= config.ceilings.upload_bytes
}

_host := object.get(input, ["egress", "host", "name"], "?")

_method := object.get(input, ["egress", "method"], "?")

_upgrade := object.get(input, ["egress", "upgrade"], "?")

_sent := object.get(input, ["egress", "bytes_sent"], "an unknown number of")

_names := concat(", ", [_host, object.get(input, ["egress", "sni"], "?"), object.get(input, ["egress", "authority"], "?")])

_label(key) := object.get(input, ["egress", "label", key], "unknown")
