package opensafe.gate_test

import data.opensafe.gate

_asked(arguments) := verdict if {
	question := {"id": "canary", "call": {"arguments": arguments}}
	verdict := gate.canary with input as question with data.opensafe.version as "7-abc"
}

test_allow_canary_revision if _asked({"revision": "7-abc"}).action == "allow"

test_block_canary_revision if _asked({"revision": "6-abc"}).action == "block"

test_missing_canary_revision if _asked({}).action == "block"

test_echo_canary_revision if {
	verdict := _asked({"revision": "7-abc"})
	verdict.id == "canary"
	verdict.data_version == "7-abc"
	verdict.grant == {}
}
