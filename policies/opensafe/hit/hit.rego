# METADATA
# title: Hits
# description: The one shape in which a rule reports that it fired.
package opensafe.hit

# METADATA
# title: A rule that forbids
# description: block beats review beats allow; no approval lifts it.
block(id, severity, reason, value, remedy) := _hit("block", id, severity, reason, value, remedy)

# METADATA
# title: A rule that asks for a human
# description: Lifted by an approval of exactly this call on this revision.
review(id, severity, reason, value, remedy) := _hit("review", id, severity, reason, value, remedy)

# METADATA
# title: A rule that permits
# description: Decides only where nothing forbids and nothing asks.
allow(id, reason, value) := _hit("allow", id, "info", reason, value, "")

_hit(action, id, severity, reason, value, remedy) := {
	"id": id,
	"severity": severity,
	"action": action,
	"reason": _short(reason, 500),
	"value": _short($"{value}", 200),
	"remedy": _short(remedy, 500),
}

# Values come from the caller: cut, so that no call can make its own verdict too large to be one.
_short(text, limit) := text if count(text) <= limit

else := $"{substring(text, 0, limit)}…"
