# METADATA
# title: Verdict
# description: Puts the hits of a family together. The echoes of id and data version are what makes it a verdict.
package opensafe.verdict

import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Verdict of a family
# description: Undefined, and so a denial, where the call has no id or the data no version.
of(family, blocks, reviews, allows) := _verdict(family, blocks, reviews, allows, []) if count(config.shadow) == 0

# Rules in shadow are shown, and decide nothing.
of(family, blocks, reviews, allows) := _verdict(family, _live(blocks), _live(reviews), _live(allows), shadow) if {
	count(config.shadow) > 0
	shadow := array.slice(sort([item | some item in ((blocks | reviews) | allows); config.shadow[item.id]]), 0, 64)
}

_verdict(family, blocks, reviews, allows, shadow) := {
	"id": input.id,
	"data_version": data.opensafe.version,
	"action": action,
	"rules": array.slice(all, 0, 64),
	"grant": _grant(family, action),
	"shadow": shadow,
} if {
	# As sorting them together would have it. Arrays: each look into a set hashes whole hits.
	all := array.concat(
		array.concat(sort(allows), _default(blocks, reviews, allows)),
		array.concat(sort(blocks), sort(reviews)),
	)
	action := _action(all, reviews)
}

_live(hits) := {item | some item in hits; not config.shadow[item.id]}

# METADATA
# title: Default
# description: What no rule allows and no rule would have reviewed is denied.
# custom:
#   id: default.deny
#   severity: medium
#   threat: E5
_default(blocks, reviews, allows) := [hit.block(
	"default.deny", "medium",
	"no rule allows this call", _subject, "Stay within /workspace and use ordinary development programs.",
)] if {
	(count(blocks) + count(reviews)) + count(allows) == 0
}

_default(blocks, reviews, allows) := [] if {
	(count(blocks) + count(reviews)) + count(allows) > 0
}

_action(all, _) := "block" if _blocked(all)

_action(all, reviews) := "review" if {
	not _blocked(all)
	count(reviews) > 0
	not _approved
}

_action(all, reviews) := "allow" if {
	not _blocked(all)
	_cleared(reviews)
}

_blocked(all) if {
	some item in all
	item.action == "block"
}

_cleared(reviews) if count(reviews) == 0

_cleared(reviews) if {
	count(reviews) > 0
	_approved
}

# An approval counts for exactly this call on exactly this revision, and never by the one who asked.
_approved if {
	input.approval.digest == input.call.digest
	input.approval.revision == data.opensafe.version
	input.approval.approver != input.principal.name
}

_grant(family, "allow") := object.union(_granted(family), {"network": [host.name | some host in _hosts]})

_grant(_, action) := {} if action != "allow"

# A tree's members are not known here. What it must leave out goes with the grant: the patterns of these classes.
_granted(family) := object.union(config.grants[family], {"paths": {
	"hold_read": _patterns(config.grants[family].paths.hold_read),
	"hold_write": _patterns(config.grants[family].paths.hold_write),
}}) if {
	_tree
}

_granted(family) := object.union(object.remove(config.grants[family], ["paths"]), {"paths": {
	"read": config.grants[family].paths.read,
	"write": config.grants[family].paths.write,
}}) if {
	not _tree
}

_tree if input.call.tree == true

_patterns(classes) := sort({pattern | some class in classes; some pattern in config.paths[class]})

_hosts := object.get(input, ["call", "hosts"], [])

_subject := object.get(input, ["call", "tool"], "?")
