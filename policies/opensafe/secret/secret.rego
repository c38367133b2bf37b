# METADATA
# title: Secret content
# description: Text that is shaped like a key or token and would be written or sent.
package opensafe.secret

import data.opensafe.command
import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Secrets in commands
# description: A command that writes or sends carries text shaped like a key.
# custom:
#   id: tool.write.secret.block
#   severity: high
#   threat: I6
blocks contains hit.block(
	"tool.write.secret.block", "high",
	$"the command carries text shaped like a secret ({marker}…)", marker,
	"Leave the secret out; name the variable or file that a person fills in.",
) if {
	_leaves
	some text in _texts
	some marker in config.secrets
	contains(text, marker)
	_followed(text, marker)
}

# METADATA
# title: Secrets in files
# description: >-
#   A file tool's content is sealed before it comes here; the seal must say what shapes were found in it, and no
#   secret's among them.
# custom:
#   id: tool.write.secret.block
#   severity: high
#   threat: I6
content_blocks contains hit.block(
	"tool.write.secret.block", "high",
	"the content holds text shaped like a secret", _path,
	"Leave the secret out; name the variable or file that a person fills in.",
) if {
	not _clean
}

# An armour says it alone; behind any other beginning stand at least ten characters of a key.
_followed(_, marker) if startswith(marker, "-----")

_followed(text, marker) if {
	parts := split(text, marker)
	some rest in array.slice(parts, 1, count(parts))
	count(rest) - count(trim_left(rest, _of_keys)) >= 10
}

_of_keys := "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-/"

_leaves if count(input.call.writes) > 0

_leaves if command.talks

_leaves if {
	some at in command.at.git
	command.verb(input.call.commands[at]) in {"commit", "notes", "tag"}
}

# A secret is long: short words, which most are, are not searched.
_texts contains argument if {
	some argument in input.call.commands[_].argv
	count(argument) >= 16
}

_texts contains value if {
	some _, value in input.call.commands[_].assignments
	count(value) >= 16
}

_texts contains redirect.target if {
	some redirect in input.call.commands[_].redirects
	count(redirect.target) >= 16
}

_clean if {
	is_object(_seal.shapes)
	not _seal.shapes.secret
}

# Larger content follows the call; how it is shaped is not known.
_clean if input.call.content_opaque == true

_seal := object.get(input.call.arguments, "content", object.get(input.call.arguments, "content_base64", false))

_path := object.get(input, ["call", "writes", 0, "path"], "?")
