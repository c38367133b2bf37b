# METADATA
# title: Session
# description: Rules on the pace of a session, its denials and what it has seen.
package opensafe.session

import data.opensafe.command
import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Rate
# description: Calls within the last minute.
# custom:
#   id: session.rate.limit
#   severity: medium
#   threat: D1
blocks contains hit.block(
	"session.rate.limit", "medium",
	$"{_seen("calls_1m")} calls within a minute are more than {config.ceilings.calls_per_minute}", _seen("calls_1m"),
	"Wait a minute, or do more with one call.",
) if {
	not _below("calls_1m", config.ceilings.calls_per_minute)
}

# METADATA
# title: Quarantine
# description: A session that was denied again and again is probing, so a human sees whatever it does next.
# custom:
#   id: session.denials.quarantine
#   severity: high
#   threat: T17
reviews contains hit.review(
	"session.denials.quarantine", "high",
	$"{_seen("blocks_10m")} calls were denied within ten minutes", _seen("blocks_10m"),
	"Wait ten minutes, or ask for a review and say what the session is for.",
) if {
	not _below("blocks_10m", config.ceilings.blocks_in_ten_minutes)
}

# METADATA
# title: Talking after reading a secret
# description: A session that read a secret and now reaches for the network.
# custom:
#   id: egress.taint.review
#   severity: high
#   threat: I6
taint_reviews contains hit.review(
	"egress.taint.review", "high",
	"the session has read a secret and now reaches for the network", "secret.read",
	"Use a new session without the secret for work that needs the network.",
) if {
	_reaches
	not _untainted
}

# METADATA
# title: Exfiltration in steps
# description: A secret was read, something was encoded after it, and now the session reaches for the network.
# custom:
#   id: session.sequence.exfil
#   severity: critical
#   threat: I6
sequence_blocks contains hit.block(
	"session.sequence.exfil", "critical",
	"the session read a secret, then encoded, and now reaches for the network", "secret.read, encoded",
	"Use a new session without the secret for work that needs the network.",
) if {
	_reaches
	not _no_sequence
}

_reaches if input.kind == "egress"

_reaches if command.talks

_untainted if {
	is_array(input.session.taints)
	not "secret.read" in input.session.taints
}

_no_sequence if _untainted

_no_sequence if {
	is_array(input.session.taints)
	not _encoded_after
	not _encodes_now
}

_encoded_after if {
	some secret, "secret.read" in input.session.taints
	some encoded, "encoded" in input.session.taints
	secret < encoded
}

_encodes_now if {
	encoders := config.programs.encoders
	some name, _ in command.at
	encoders[name]
}

_below(key, ceiling) if {
	input.session.window[key] >= 0
	input.session.window[key] < ceiling
}

_seen(key) := object.get(input, ["session", "window", key], "an unknown number of")
