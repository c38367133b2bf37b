# METADATA
# title: Verdict
# description: Puts the hits of a family together. The echoes of id and data version are what makes it a verdict.
package opensafe.verdict

import data.opensafe.caller
import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Verdict of a family
# description: >-
#   Of the hits in a list of sets, in no order: the daemon sorts. Undefined, and so a denial, where the call has no id
#   or the data no version.
of(family, found) := _verdict(family, [item | some hits in found; some item in hits], []) if count(config.shadow) == 0

# Rules in shadow are shown, and decide nothing.
of(family, found) := _verdict(family, live, shadow) if {
	count(config.shadow) > 0
	live := [item | some hits in found; some item in hits; not config.shadow[item.id]]
	shadow := array.slice(sort({item | some hits in found; some item in hits; config.shadow[item.id]}), 0, 64)
}

_verdict(family, fired, shadow) := {
	"id": input.id,
	"data_version": data.opensafe.version,
	"action": action,
	"rules": rules,
	"grant": _grant(family, action),
	"shadow": shadow,
} if {
	hits := _hits(fired)
	rules := _cut(hits)
	action := _action(hits)
}

# METADATA
# title: Default
# description: What no rule allows and no rule would have reviewed is denied.
# custom:
#   id: default.deny
#   severity: medium
#   threat: E5
_hits([]) := [hit.block(
	"default.deny", "medium",
	"no rule allows this call", _subject, "Stay within /workspace and use ordinary development programs.",
)]

_hits(fired) := fired if fired != []

# Sorted, those that allow come first, those that review last; of the latter no more are cut than must be. What is cut is
# not shown, and decides all the same.
_cut(hits) := array.slice(sort(hits), 0, 64) if count(hits) > 64

_cut(hits) := hits if count(hits) <= 64

_action(rules) := "block" if {
	some item in rules
	item.action == "block"
}

else := "review" if {
	not _approved
	some item in rules
	item.action == "review"
}

else := "allow"

# An approval counts for exactly this call on exactly this revision, and never by the one who asked.
_approved if {
	input.approval.digest == input.call.digest
	input.approval.revision == data.opensafe.version
	input.approval.approver != input.principal.name
}

_grant(family, "allow") := object.union(
	object.remove(config.grants[family], ["paths"]),
	{
		"network": [host.name | some host in _hosts],
		"paths": _paths(config.grants[family].paths),
		"users": _users,
	},
)

_grant(_, action) := {} if action != "allow"

# A tree's members are not known here. What it must leave out goes with the grant: the patterns of these classes.
_paths(granted) := object.union(granted, {
	"hold_read": _patterns(granted.hold_read),
	"hold_write": _patterns(granted.hold_write),
}) if {
	_tree
}

_paths(granted) := {"read": granted.read, "write": granted.write} if not _tree

_tree if input.call.tree == true

# In no order: to sort some hundred texts takes longer than all rules together.
_patterns(classes) := [pattern | some pattern in {pattern | some class in classes; some pattern in config.paths[class]}]

# Who is not asked for is not granted.
_users := [name | some name in caller.users] if is_object(input.call.user)

else := []

_hosts := object.get(input, ["call", "hosts"], [])

_subject := object.get(input, ["call", "tool"], "?")
