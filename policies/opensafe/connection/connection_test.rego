package opensafe.connection_test

import data.opensafe.sample

test_block_egress_sni_mismatch_deny_connection if {
	verdict := sample.judge("egress", sample.egress({"sni": "evil.example.com"}))
	sample.blocked_by(verdict, "egress.sni.mismatch.deny")
}

test_block_egress_sni_mismatch_deny_connection_2 if {
	verdict := sample.judge("egress", sample.egress({"sni": ""}))
	sample.blocked_by(verdict, "egress.sni.mismatch.deny")
}

test_block_egress_sni_mismatch_deny_connection_3 if {
	verdict := sample.judge("egress", sample.egress({"authority": "evil.example.com:443"}))
	sample.blocked_by(verdict, "egress.sni.mismatch.deny")
}

test_block_egress_sni_mismatch_deny_connection_4 if {
	verdict := sample.judge("egress", sample.egress({"layer": "http", "sni": "", "authority": "evil.example.com", "method": "GET"}))
	sample.blocked_by(verdict, "egress.sni.mismatch.deny")
}

test_block_egress_sni_mismatch_deny_connection_5 if {
	verdict := sample.judge("egress", sample.dns({"sni": "evil.example.com"}))
	sample.blocked_by(verdict, "egress.sni.mismatch.deny")
}

test_allow_egress_sni_mismatch_deny_connection if {
	verdict := sample.judge("egress", sample.egress({"authority": "DOCS.python.org.:443"}))
	sample.allowed(verdict, "egress.sni.mismatch.deny")
}

test_allow_egress_sni_mismatch_deny_connection_2 if {
	verdict := sample.judge("egress", sample.egress({"layer": "http", "sni": "", "authority": "docs.python.org:80", "method": "GET"}))
	sample.allowed(verdict, "egress.sni.mismatch.deny")
}

test_allow_egress_sni_mismatch_deny_connection_3 if {
	verdict := sample.judge("egress", sample.egress({"layer": "tcp", "sni": ""}))
	sample.allowed(verdict, "egress.sni.mismatch.deny")
}

test_allow_egress_sni_mismatch_deny_connection_4 if {
	verdict := sample.judge("egress", sample.dns({}))
	sample.allowed(verdict, "egress.sni.mismatch.deny")
}

test_missing_egress_sni_mismatch_deny_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/sni"))
	sample.blocked_by(verdict, "egress.sni.mismatch.deny")
}

test_block_egress_method_allowlist_connection if {
	verdict := sample.judge("egress", sample.egress({"layer": "http", "sni": "", "authority": "docs.python.org:80", "method": "POST"}))
	sample.blocked_by(verdict, "egress.method.allowlist")
}

test_block_egress_method_allowlist_connection_2 if {
	verdict := sample.judge("egress", sample.egress({"layer": "http", "sni": "", "authority": "docs.python.org:80", "method": ""}))
	sample.blocked_by(verdict, "egress.method.allowlist")
}

test_allow_egress_method_allowlist_connection if {
	verdict := sample.judge("egress", sample.egress({"layer": "http", "sni": "", "authority": "docs.python.org:80", "method": "GET"}))
	sample.allowed(verdict, "egress.method.allowlist")
}

test_allow_egress_method_allowlist_connection_2 if {
	verdict := sample.judge("egress", sample.egress({}))
	sample.allowed(verdict, "egress.method.allowlist")
}

test_missing_egress_method_allowlist_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({"layer": "http", "sni": "", "authority": "docs.python.org:80", "method": "GET"}), "/egress/method"))
	sample.blocked_by(verdict, "egress.method.allowlist")
}

test_block_egress_upgrade_deny_connection if {
	verdict := sample.judge("egress", sample.egress({"layer": "http", "sni": "", "authority": "docs.python.org", "method": "GET", "upgrade": "websocket"}))
	sample.blocked_by(verdict, "egress.upgrade.deny")
}

test_block_egress_upgrade_deny_connection_2 if {
	listed := {"host": {"classes": {"websocket": true}}}
	verdict := sample.judge("egress", sample.egress(object.union({"layer": "http", "sni": "", "authority": "docs.python.org", "method": "GET", "upgrade": "h2c"}, listed)))
	sample.blocked_by(verdict, "egress.upgrade.deny")
}

test_block_egress_upgrade_deny_connection_3 if {
	verdict := sample.judge("egress", sample.egress({"upgrade": "websocket", "host": {"classes": {"websocket": true}}}))
	sample.blocked_by(verdict, "egress.upgrade.deny")
}

test_allow_egress_upgrade_deny_connection if {
	listed := {"host": {"classes": {"websocket": true}}}
	verdict := sample.judge("egress", sample.egress(object.union({"layer": "http", "sni": "", "authority": "docs.python.org", "method": "GET", "upgrade": "websocket"}, listed)))
	sample.allowed(verdict, "egress.upgrade.deny")
}

test_allow_egress_upgrade_deny_connection_2 if {
	verdict := sample.judge("egress", sample.egress({"layer": "http", "sni": "", "authority": "docs.python.org", "method": "GET", "upgrade": ""}))
	sample.allowed(verdict, "egress.upgrade.deny")
}

test_missing_egress_upgrade_deny_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/upgrade"))
	sample.blocked_by(verdict, "egress.upgrade.deny")
}

test_block_egress_dns_label_deny_connection if {
	verdict := sample.judge("egress", sample.dns({"label": {"longest": 63}}))
	sample.blocked_by(verdict, "egress.dns.label.deny")
}

test_block_egress_dns_label_deny_connection_2 if {
	verdict := sample.judge("egress", sample.dns({"label": {"entropy": 4800}}))
	sample.blocked_by(verdict, "egress.dns.label.deny")
}

test_block_egress_dns_label_deny_connection_3 if {
	verdict := sample.judge("egress", sample.dns({"label": {"names": 1000}}))
	sample.blocked_by(verdict, "egress.dns.label.deny")
}

test_block_egress_dns_label_deny_connection_4 if {
	verdict := sample.judge("egress", sample.dns({"label": {"length": 250}}))
	sample.blocked_by(verdict, "egress.dns.label.deny")
}

test_block_egress_dns_label_deny_connection_without_a_question if {
	verdict := sample.judge("egress", sample.egress({"label": {"entropy": 4800}}))
	sample.blocked_by(verdict, "egress.dns.label.deny")
}

test_missing_egress_dns_label_deny_connection_without_a_question if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/label"))
	sample.blocked_by(verdict, "egress.dns.label.deny")
}

test_allow_egress_dns_label_deny_connection_without_a_question if {
	verdict := sample.judge("egress", sample.egress({}))
	sample.allowed(verdict, "egress.dns.label.deny")
}

test_allow_egress_dns_label_deny_connection if {
	verdict := sample.judge("egress", sample.dns({}))
	sample.allowed(verdict, "egress.dns.label.deny")
}

test_missing_egress_dns_label_deny_connection if {
	verdict := sample.judge("egress", sample.without(sample.dns({}), "/egress/label"))
	sample.blocked_by(verdict, "egress.dns.label.deny")
}

test_missing_egress_dns_label_deny_connection_2 if {
	verdict := sample.judge("egress", sample.without(sample.dns({}), "/egress/label/names"))
	sample.blocked_by(verdict, "egress.dns.label.deny")
}

test_review_egress_upload_review_connection if {
	verdict := sample.judge("egress", sample.egress({"bytes_sent": 2000000}))
	sample.reviewed_by(verdict, "egress.upload.review")
}

test_allow_egress_upload_review_connection if {
	verdict := sample.judge("egress", sample.egress({"bytes_sent": 1000}))
	sample.allowed(verdict, "egress.upload.review")
}

test_missing_egress_upload_review_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/bytes_sent"))
	sample.fired(verdict, "egress.upload.review", "review")
}

test_allow_egress_domain_allow if {
	verdict := sample.judge("egress", sample.egress({}))
	sample.allowed_by(verdict, "egress.domain.allow")
}

test_block_egress_domain_allow if {
	verdict := sample.judge("egress", sample.egress({"granted": false}))
	sample.blocked_by(verdict, "egress.domain.allowlist")
}

test_missing_egress_domain_allow if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/host"))
	sample.blocked_by(verdict, "default.deny")
}

test_block_default_deny_layer if {
	verdict := sample.judge("egress", sample.egress({"layer": "quic"}))
	sample.blocked_by(verdict, "default.deny")
}

test_block_default_deny_kind if {
	verdict := sample.judge("egress", object.union(sample.egress({}), {"kind": "call"}))
	sample.blocked_by(verdict, "default.deny")
}

test_missing_default_deny_layer if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/layer"))
	sample.blocked_by(verdict, "default.deny")
}

test_block_caller_ban_deny_connection if {
	verdict := sample.judge("egress", object.union(sample.egress({}), {"session": {"banned": true}}))
	sample.blocked_by(verdict, "caller.ban.deny")
}
