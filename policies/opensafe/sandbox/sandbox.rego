# METADATA
# title: Sandbox
# description: Which sandboxes may be made, and how large.
package opensafe.sandbox

import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: Images
# description: The template must be listed, with this image unless the site accepts any image of it.
# custom:
#   id: sandbox.image.allowlist
#   severity: high
#   threat: E2
blocks contains hit.block(
	"sandbox.image.allowlist", "high",
	$"the image {_template} {_digest} is not listed", _template, "Ask for a listed template, such as base.",
) if {
	not _image
}

# METADATA
# title: Sizes
# description: No limit of the sandbox lies above the site's ceiling.
# custom:
#   id: sandbox.limits.ceiling
#   severity: high
#   threat: D2
blocks contains hit.block(
	"sandbox.limits.ceiling", "high",
	$"{name} {_limit(name)} is above {ceiling}", $"{name}={_limit(name)}", $"Ask for {name} of at most {ceiling}.",
) if {
	some name, ceiling in config.ceilings.sandbox
	not _at_most(name, ceiling)
}

# METADATA
# title: Profiles of a role
# description: The sandbox's seccomp profile is one that a role of the caller may use.
# custom:
#   id: sandbox.profile.role
#   severity: high
#   threat: E7
blocks contains hit.block(
	"sandbox.profile.role", "high",
	$"no role of the caller has the profile {_profile}", _profile,
	$"Ask for a profile of the role, or add {_profile} to profiles in the site's policy data.",
) if {
	not _profile_of_role
}

# METADATA
# title: Right question
# description: This entry point judges sandboxes only.
# custom:
#   id: default.deny
#   severity: high
#   threat: E5
blocks contains hit.block(
	"default.deny", "high",
	"the question is not about a sandbox", _kind, "Ask the tool's own entry point.",
) if {
	not input.kind == "sandbox"
}

# METADATA
# title: Listed sandboxes
# description: A sandbox of a listed image within the ceilings.
# custom:
#   id: sandbox.image.allow
#   severity: info
#   threat: none
allows contains hit.allow(
	"sandbox.image.allow",
	$"a sandbox of the listed image {_template}", _template,
) if {
	_image
}

_image if config.images[input.sandbox.template] == "any"

_image if config.images[input.sandbox.template][input.sandbox.image_digest] == true

_at_most(name, ceiling) if {
	input.sandbox.limits[name] > 0
	input.sandbox.limits[name] <= ceiling
}

_profile_of_role if {
	some role in input.principal.roles
	config.profiles[role][input.sandbox.profile]
}

_profile := object.get(input, ["sandbox", "profile"], "?")

_limit(name) := object.get(input, ["sandbox", "limits", name], "unknown")

_template := object.get(input, ["sandbox", "template"], "?")

_digest := object.get(input, ["sandbox", "image_digest"], "")

_kind := object.get(input, "kind", "?")
