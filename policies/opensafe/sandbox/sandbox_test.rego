package opensafe.sandbox_test

import data.opensafe.sample

test_block_sandbox_image_allowlist if {
	verdict := sample.judge("sandbox", object.union(sample.sandbox, {"sandbox": {"template": "other"}}))
	sample.blocked_by(verdict, "sandbox.image.allowlist")
}

test_allow_sandbox_image_allowlist if {
	verdict := sample.judge("sandbox", sample.sandbox)
	sample.allowed(verdict, "sandbox.image.allowlist")
}

test_missing_sandbox_image_allowlist if {
	verdict := sample.judge("sandbox", sample.without(sample.sandbox, "/sandbox/template"))
	sample.blocked_by(verdict, "sandbox.image.allowlist")
}

test_block_sandbox_limits_ceiling if {
	verdict := sample.judge("sandbox", object.union(sample.sandbox, {"sandbox": {"limits": {"pids": 4097}}}))
	sample.blocked_by(verdict, "sandbox.limits.ceiling")
}

test_block_sandbox_limits_ceiling_zero if {
	verdict := sample.judge("sandbox", object.union(sample.sandbox, {"sandbox": {"limits": {"memory_bytes": 0}}}))
	sample.blocked_by(verdict, "sandbox.limits.ceiling")
}

test_allow_sandbox_limits_ceiling if {
	verdict := sample.judge("sandbox", sample.sandbox)
	sample.allowed(verdict, "sandbox.limits.ceiling")
}

test_missing_sandbox_limits_ceiling if {
	verdict := sample.judge("sandbox", sample.without(sample.sandbox, "/sandbox/limits/pids"))
	sample.blocked_by(verdict, "sandbox.limits.ceiling")
}

test_missing_sandbox_limits_ceiling_limits if {
	verdict := sample.judge("sandbox", sample.without(sample.sandbox, "/sandbox/limits"))
	sample.blocked_by(verdict, "sandbox.limits.ceiling")
}

test_allow_sandbox_image_allow if {
	verdict := sample.judge("sandbox", sample.sandbox)
	sample.allowed_by(verdict, "sandbox.image.allow")
}

test_block_sandbox_image_allow if {
	verdict := sample.judge("sandbox", object.union(sample.sandbox, {"sandbox": {"template": "other"}}))
	not sample.named(verdict, "sandbox.image.allow")
}

test_missing_sandbox_image_allow if {
	verdict := sample.judge("sandbox", sample.without(sample.sandbox, "/sandbox"))
	sample.blocked_by(verdict, "sandbox.image.allowlist")
}

test_block_default_deny if {
	verdict := sample.judge("sandbox", object.union(sample.sandbox, {"kind": "call"}))
	sample.blocked_by(verdict, "default.deny")
}

test_missing_default_deny if {
	verdict := sample.judge("sandbox", sample.without(sample.sandbox, "/kind"))
	sample.blocked_by(verdict, "default.deny")
}

pinned := object.union(sample.sandbox, {"sandbox": {"image_digest": "sha256:aa"}})

test_allow_sandbox_image_allowlist_digest if {
	verdict := sample.judge("sandbox", pinned) with data.opensafe.config.images as {"base": {"sha256:aa": true}}
	verdict.action == "allow"
}

test_block_sandbox_image_allowlist_digest if {
	verdict := sample.judge("sandbox", pinned) with data.opensafe.config.images as {"base": {"sha256:bb": true}}
	sample.blocked_by(verdict, "sandbox.image.allowlist")
}

test_block_sandbox_profile_role if {
	verdict := sample.judge("sandbox", object.union(sample.sandbox, {"sandbox": {"profile": "wide"}}))
	sample.blocked_by(verdict, "sandbox.profile.role")
}

test_allow_sandbox_profile_role if {
	verdict := sample.judge("sandbox", sample.sandbox)
	sample.allowed(verdict, "sandbox.profile.role")
}

test_missing_sandbox_profile_role if {
	verdict := sample.judge("sandbox", sample.without(sample.sandbox, "/sandbox/profile"))
	sample.blocked_by(verdict, "sandbox.profile.role")
}

test_missing_sandbox_profile_role_2 if {
	verdict := sample.judge("sandbox", sample.without(sample.sandbox, "/principal/roles"))
	sample.blocked_by(verdict, "sandbox.profile.role")
}
