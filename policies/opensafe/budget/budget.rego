# METADATA
# title: Budget
# description: What a session may use up in all.
package opensafe.budget

import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Calls
# description: The number of calls of a session, bounded by its own limit and by the site's ceiling.
# custom:
#   id: budget.calls.ceiling
#   severity: medium
#   threat: denial of service
blocks contains hit.block(
	"budget.calls.ceiling", "medium",
	$"the session has used {_used} calls of {_limit}", _used, "Open a new session.",
) if {
	not _within
}

_within if {
	input.budget.usage.calls >= 0
	input.budget.usage.calls < _limit
}

_limit := min({config.ceilings.calls, object.get(input, ["budget", "limits", "calls"], config.ceilings.calls)})

_used := object.get(input, ["budget", "usage", "calls"], "an unknown number of")
