package opensafe.request_test

import data.opensafe.sample

listed := {"docs.python.org": {"methods": {"GET": true, "PUT": true}, "paths": ["/3/*", "/index.html"]}}

http(changes) := sample.egress(object.union(
	{"layer": "http", "sni": "", "authority": "docs.python.org", "method": "GET", "path": "/3/library"},
	changes,
))

judged(question) := verdict if {
	verdict := sample.judge("egress", question) with data.opensafe.config.requests as listed
}

test_block_egress_path_allowlist if {
	sample.blocked_by(judged(http({"path": "/admin"})), "egress.path.allowlist")
}

test_block_egress_path_allowlist_2 if {
	sample.blocked_by(judged(http({"path": "/index.html/more"})), "egress.path.allowlist")
}

test_block_egress_path_allowlist_unread if {
	sample.blocked_by(judged(http({"path": ""})), "egress.path.allowlist")
}

test_allow_egress_path_allowlist if {
	sample.allowed(judged(http({})), "egress.path.allowlist")
}

test_allow_egress_path_allowlist_2 if {
	sample.allowed(judged(http({"path": "/index.html"})), "egress.path.allowlist")
}

test_allow_egress_path_allowlist_not_listed if {
	sample.allowed(sample.judge("egress", http({"path": "/admin"})), "egress.path.allowlist")
}

test_missing_egress_path_allowlist if {
	sample.blocked_by(judged(sample.without(http({}), "/egress/path")), "egress.path.allowlist")
}

test_missing_egress_path_allowlist_not_listed if {
	verdict := sample.judge("egress", sample.without(http({}), "/egress/path"))
	sample.blocked_by(verdict, "egress.path.allowlist")
}

test_block_egress_method_allowlist_of_a_host if {
	sample.blocked_by(judged(http({"method": "HEAD"})), "egress.method.allowlist")
}

test_allow_egress_method_allowlist_of_a_host if {
	sample.allowed(judged(http({"method": "PUT"})), "egress.method.allowlist")
}

test_block_egress_method_allowlist_of_no_host if {
	sample.blocked_by(sample.judge("egress", http({"method": "PUT"})), "egress.method.allowlist")
}

test_block_egress_request_unseen_deny if {
	sample.blocked_by(judged(sample.egress({})), "egress.request.unseen.deny")
}

test_block_egress_request_unseen_deny_2 if {
	sample.blocked_by(judged(sample.egress({"layer": "tcp", "sni": ""})), "egress.request.unseen.deny")
}

test_allow_egress_request_unseen_deny if {
	sample.allowed(judged(sample.egress({"terminated": true})), "egress.request.unseen.deny")
}

test_allow_egress_request_unseen_deny_2 if {
	sample.allowed(judged(sample.dns({})), "egress.request.unseen.deny")
}

test_allow_egress_request_unseen_deny_not_listed if {
	sample.allowed(sample.judge("egress", sample.egress({})), "egress.request.unseen.deny")
}

test_missing_egress_request_unseen_deny if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/terminated"))
	sample.blocked_by(verdict, "egress.request.unseen.deny")
}

test_block_egress_credential_deny if {
	sample.blocked_by(sample.judge("egress", http({"credential": "misplaced"})), "egress.credential.deny")
}

test_block_egress_credential_deny_2 if {
	sample.blocked_by(sample.judge("egress", http({"credential": "put"})), "egress.credential.deny")
}

test_allow_egress_credential_deny if {
	verdict := sample.judge("egress", http({"credential": "put", "terminated": true}))
	sample.allowed(verdict, "egress.credential.deny")
}

test_allow_egress_credential_deny_2 if {
	sample.allowed(sample.judge("egress", http({})), "egress.credential.deny")
}

test_missing_egress_credential_deny if {
	verdict := sample.judge("egress", sample.without(http({}), "/egress/credential"))
	sample.blocked_by(verdict, "egress.credential.deny")
}
