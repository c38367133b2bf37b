package opensafe.gate

# METADATA
# title: gate/canary
# description: >-
#   How an activation proves itself: allows exactly the question that names the revision in force. It grants nothing,
#   and no tool's calls come here.
# entrypoint: true
canary := {
	"id": input.id,
	"data_version": data.opensafe.version,
	"action": action,
	"rules": [{
		"id": "canary.revision",
		"severity": "info",
		"action": action,
		"reason": $"revision {data.opensafe.version} is in force",
		"value": "",
		"remedy": "",
	}],
	"grant": {},
	"shadow": [],
} if {
	action := _canary_action
}

default _canary_action := "block"

_canary_action := "allow" if input.call.arguments.revision == data.opensafe.version
