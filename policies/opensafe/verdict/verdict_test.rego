package opensafe.verdict_test

import data.opensafe.sample

install := sample.bash([sample.command(["npm", "install"])])

approval := {"id": "rev", "digest": "d1", "revision": sample.revision, "approver": "operator"}

approved(question, changes) := object.union(question, {"approval": object.union(approval, changes)})

test_allow_default_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command(["true"])]))
	sample.allowed(verdict, "default.deny")
}

test_block_default_deny if {
	verdict := sample.judge("read", sample.call("Read", {"reads": []}))
	sample.blocked_by(verdict, "default.deny")
}

test_missing_default_deny_id if not sample.judge("bash", sample.without(install, "/id"))

test_missing_default_deny_version if {
	not data.opensafe.gate.bash with input as install
}

test_missing_default_deny_input if not sample.judge("bash", {})

test_echoes if {
	verdict := sample.judge("bash", install)
	verdict.id == "question"
	verdict.data_version == sample.revision
	verdict.shadow == []
}

test_grant_only_where_allowed if {
	sample.judge("bash", install).grant == {}
	allowed := sample.judge("bash", sample.bash([sample.command(["true"])]))
	allowed.grant.programs == "any"
	allowed.grant.network == []
	allowed.grant.seccomp == "default"
}

test_grant_names_the_hosts_of_the_call if {
	question := sample.call("Bash", {
		"commands": [sample.command(["curl", "https://docs.python.org/3/"])],
		"hosts": [sample.host("docs.python.org", ["allowed"])],
	})
	sample.judge("bash", question).grant.network == ["docs.python.org"]
}

test_approval_lifts_a_review_and_leaves_it_listed if {
	verdict := sample.judge("bash", approved(install, {}))
	verdict.action == "allow"
	sample.fired(verdict, "tool.exec.package.install.review", "review")
	verdict.grant.programs == "any"
}

test_approval_of_another_call_counts_nothing if {
	sample.judge("bash", approved(install, {"digest": "d2"})).action == "review"
}

test_approval_on_another_revision_counts_nothing if {
	sample.judge("bash", approved(install, {"revision": "1-111111111111"})).action == "review"
}

test_approval_by_the_caller_counts_nothing if {
	sample.judge("bash", approved(install, {"approver": "default"})).action == "review"
}

test_approval_without_digest_counts_nothing if {
	question := sample.without(approved(install, {}), "/approval/digest")
	sample.judge("bash", sample.without(question, "/call/digest")).action == "review"
}

test_approval_never_lifts_a_block if {
	both := sample.bash([sample.command(["npm", "install"]), sample.command(["sudo", "id"])])
	sample.judge("bash", approved(both, {})).action == "block"
}

test_block_beats_review if {
	both := sample.bash([sample.command(["npm", "install"]), sample.command(["frobnicate"])])
	sample.judge("bash", both).action == "block"
}

test_rules_are_bounded_and_keep_the_deciding_ones if {
	many := [sample.command(["sudo", $"{n}"]) | some n in numbers.range(1, 100)]
	paths := [sample.path($"/data/{n}", []) | some n in numbers.range(1, 100)]
	verdict := sample.judge("bash", sample.call("Bash", {"commands": many, "reads": paths}))
	verdict.action == "block"
	count(verdict.rules) == 64
	verdict.rules[0].action == "block"
}

test_long_values_are_cut if {
	name := concat("", ["x" | some _ in numbers.range(1, 5000)])
	verdict := sample.judge("bash", sample.bash([sample.command([name])]))
	every item in verdict.rules { count(item.reason) < 600 }
}

shadowed(family, question, rules) := verdict if {
	verdict := sample.judge(family, question) with data.opensafe.config.shadow as rules
}

test_a_rule_in_shadow_is_shown_and_does_not_decide if {
	verdict := shadowed("bash", install, {"tool.exec.package.install.review": true})
	verdict.action == "block"
	verdict.rules[0].id == "default.deny"
	verdict.shadow[0].id == "tool.exec.package.install.review"
}

test_other_rules_decide_beside_one_in_shadow if {
	question := sample.bash([sample.command(["nmap", "x"])])
	verdict := shadowed("bash", question, {"tool.exec.scanner.deny": true})
	sample.blocked_by(verdict, "tool.bash.network.deny")
	not sample.named(verdict, "tool.exec.scanner.deny")
	verdict.shadow[0].id == "tool.exec.scanner.deny"
}

test_a_shadow_that_does_not_fire_changes_nothing if {
	verdict := shadowed("bash", sample.bash([sample.command(["true"])]), {"tool.exec.scanner.deny": true})
	verdict.action == "allow"
	verdict.shadow == []
}

test_a_block_behind_more_hits_than_are_shown if {
	many := {{"id": $"a{i}", "action": "allow"} | some i in numbers.range(1, 70)}
	verdict := data.opensafe.verdict.of("bash", [many, {{"id": "z", "action": "block"}}]) with input as install
		with data.opensafe.version as sample.revision
	verdict.action == "block"
	count(verdict.rules) == 64
}
