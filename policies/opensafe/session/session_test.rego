package opensafe.session_test

import data.opensafe.sample

test_block_session_rate_limit if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"session": {"window": {"calls_1m": 100000}}}))
	sample.blocked_by(verdict, "session.rate.limit")
}

test_block_session_rate_limit_2 if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"session": {"window": {"calls_1m": -1}}}))
	sample.blocked_by(verdict, "session.rate.limit")
}

test_allow_session_rate_limit if {
	verdict := sample.judge("bash", sample.bash([sample.command([`ls`])]))
	sample.allowed(verdict, "session.rate.limit")
}

test_missing_session_rate_limit if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`ls`])]), "/session/window/calls_1m"))
	sample.blocked_by(verdict, "session.rate.limit")
}

test_missing_session_rate_limit_2 if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`ls`])]), "/session/window"))
	sample.blocked_by(verdict, "session.rate.limit")
}

test_review_session_denials_quarantine if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"session": {"window": {"blocks_10m": 1000}}}))
	sample.reviewed_by(verdict, "session.denials.quarantine")
}

test_allow_session_denials_quarantine if {
	verdict := sample.judge("bash", sample.bash([sample.command([`ls`])]))
	sample.allowed(verdict, "session.denials.quarantine")
}

test_missing_session_denials_quarantine if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`ls`])]), "/session/window/blocks_10m"))
	sample.reviewed_by(verdict, "session.denials.quarantine")
}

test_review_session_denials_quarantine_read if {
	verdict := sample.judge("read", object.union(sample.call("Read", {"reads": [sample.path("/workspace/a", ["workspace"])]}), {"session": {"window": {"blocks_10m": 1000}}}))
	sample.reviewed_by(verdict, "session.denials.quarantine")
}

test_review_session_denials_quarantine_write if {
	verdict := sample.judge("write", object.union(sample.call("Write", {"writes": [sample.path("/workspace/a", ["workspace"])], "size": 10}), {"session": {"window": {"blocks_10m": 1000}}}))
	sample.reviewed_by(verdict, "session.denials.quarantine")
}

test_review_session_denials_quarantine_list if {
	verdict := sample.judge("list", object.union(sample.call("List", {"reads": [sample.path("/workspace/a", ["workspace"])]}), {"session": {"window": {"blocks_10m": 1000}}}))
	sample.reviewed_by(verdict, "session.denials.quarantine")
}

test_review_egress_taint_review if {
	verdict := sample.judge("bash", object.union(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), {"session": {"taints": ["secret.read"]}}))
	sample.reviewed_by(verdict, "egress.taint.review")
}

test_allow_egress_taint_review if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.allowed(verdict, "egress.taint.review")
}

test_allow_egress_taint_review_2 if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"session": {"taints": ["secret.read"]}}))
	sample.allowed(verdict, "egress.taint.review")
}

test_allow_egress_taint_review_3 if {
	verdict := sample.judge("bash", object.union(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), {"session": {"taints": ["workspace.changed"]}}))
	sample.allowed(verdict, "egress.taint.review")
}

test_missing_egress_taint_review if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/session/taints"))
	sample.fired(verdict, "egress.taint.review", "review")
}

test_block_session_sequence_exfil if {
	verdict := sample.judge("bash", object.union(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), {"session": {"taints": ["secret.read", "encoded"]}}))
	sample.blocked_by(verdict, "session.sequence.exfil")
}

test_block_session_sequence_exfil_2 if {
	verdict := sample.judge("bash", object.union(sample.call("Bash", {"commands": [sample.command([`base64`, `a`]), sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), {"session": {"taints": ["secret.read"]}}))
	sample.blocked_by(verdict, "session.sequence.exfil")
}

test_allow_session_sequence_exfil if {
	verdict := sample.judge("bash", object.union(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), {"session": {"taints": ["encoded"]}}))
	sample.allowed(verdict, "session.sequence.exfil")
}

test_allow_session_sequence_exfil_2 if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"session": {"taints": ["secret.read", "encoded"]}}))
	sample.allowed(verdict, "session.sequence.exfil")
}

test_missing_session_sequence_exfil if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/session/taints"))
	sample.blocked_by(verdict, "session.sequence.exfil")
}

test_review_egress_taint_review_order if {
	verdict := sample.judge("bash", object.union(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), {"session": {"taints": ["encoded", "secret.read"]}}))
	sample.reviewed_by(verdict, "egress.taint.review")
}

test_block_session_sequence_exfil_connection if {
	verdict := sample.judge("egress", object.union(sample.egress({}), {"session": {"taints": ["secret.read", "encoded"]}}))
	sample.blocked_by(verdict, "session.sequence.exfil")
}

test_allow_session_sequence_exfil_connection if {
	verdict := sample.judge("egress", sample.egress({}))
	sample.allowed(verdict, "session.sequence.exfil")
}

test_missing_session_sequence_exfil_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/session/taints"))
	sample.blocked_by(verdict, "session.sequence.exfil")
}

test_review_egress_taint_review_connection if {
	verdict := sample.judge("egress", object.union(sample.egress({}), {"session": {"taints": ["secret.read"]}}))
	sample.reviewed_by(verdict, "egress.taint.review")
}

test_block_session_sequence_exfil_push if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`git`, `push`])]), {"session": {"taints": ["secret.read", "encoded"]}}))
	sample.blocked_by(verdict, "session.sequence.exfil")
}

test_block_session_sequence_exfil_program if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`curl`, null])]), {"session": {"taints": ["secret.read", "encoded"]}}))
	sample.blocked_by(verdict, "session.sequence.exfil")
}
