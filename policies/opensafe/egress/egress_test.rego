package opensafe.egress_test

import data.opensafe.sample

test_block_egress_domain_allowlist if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("evil.example.com", [])]}))
	sample.blocked_by(verdict, "egress.domain.allowlist")
}

test_allow_egress_domain_allowlist if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.allowed(verdict, "egress.domain.allowlist")
}

test_missing_egress_domain_allowlist if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/call/hosts/0/classes"))
	sample.blocked_by(verdict, "egress.domain.allowlist")
}

test_block_egress_address_private_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("10.0.0.1", ["private"])]}))
	sample.blocked_by(verdict, "egress.address.private.deny")
}

test_allow_egress_address_private_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.allowed(verdict, "egress.address.private.deny")
}

test_missing_egress_address_private_deny if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/call/hosts/0/classes"))
	sample.blocked_by(verdict, "egress.address.private.deny")
}

test_block_egress_metadata_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("metadata.google.internal", ["metadata", "private"])]}))
	sample.blocked_by(verdict, "egress.metadata.deny")
}

test_allow_egress_metadata_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.allowed(verdict, "egress.metadata.deny")
}

test_missing_egress_metadata_deny if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/call/hosts/0/classes"))
	sample.blocked_by(verdict, "egress.metadata.deny")
}

test_block_egress_ip_literal_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [object.union(sample.host("1.1.1.1", []), {"ip_literal": true})]}))
	sample.blocked_by(verdict, "egress.ip.literal.deny")
}

test_allow_egress_ip_literal_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.allowed(verdict, "egress.ip.literal.deny")
}

test_missing_egress_ip_literal_deny if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/call/hosts/0/ip_literal"))
	sample.blocked_by(verdict, "egress.ip.literal.deny")
}

test_block_egress_userinfo_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [object.union(sample.host("docs.python.org", ["allowed"]), {"userinfo": true})]}))
	sample.blocked_by(verdict, "egress.userinfo.deny")
}

test_allow_egress_userinfo_deny if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.allowed(verdict, "egress.userinfo.deny")
}

test_missing_egress_userinfo_deny if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/call/hosts/0/userinfo"))
	sample.blocked_by(verdict, "egress.userinfo.deny")
}

test_block_egress_address_private_deny_loopback if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("x.example", ["loopback"])]}))
	sample.blocked_by(verdict, "egress.address.private.deny")
}

test_block_egress_address_private_deny_link_local if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("x.example", ["link_local"])]}))
	sample.blocked_by(verdict, "egress.address.private.deny")
}

test_block_egress_port_allowlist if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [object.union(sample.host("docs.python.org", ["allowed"]), {"port": 22})]}))
	sample.blocked_by(verdict, "egress.port.allowlist")
}

test_allow_egress_port_allowlist if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.allowed(verdict, "egress.port.allowlist")
}

test_allow_egress_port_allowlist_2 if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [object.union(sample.host("docs.python.org", ["allowed"]), {"port": null})]}))
	sample.allowed(verdict, "egress.port.allowlist")
}

test_missing_egress_port_allowlist if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/call/hosts/0/port"))
	sample.blocked_by(verdict, "egress.port.allowlist")
}

test_block_egress_domain_allowlist_connection if {
	verdict := sample.judge("egress", sample.egress({"host": {"classes": {"allowed": false}}}))
	sample.blocked_by(verdict, "egress.domain.allowlist")
}

test_block_egress_domain_allowlist_connection_2 if {
	verdict := sample.judge("egress", sample.egress({"granted": false}))
	sample.blocked_by(verdict, "egress.domain.allowlist")
}

test_allow_egress_domain_allowlist_connection if {
	verdict := sample.judge("egress", sample.egress({}))
	sample.allowed(verdict, "egress.domain.allowlist")
}

test_allow_egress_domain_allowlist_connection_2 if {
	verdict := sample.judge("egress", sample.dns({}))
	sample.allowed(verdict, "egress.domain.allowlist")
}

test_missing_egress_domain_allowlist_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/host/classes"))
	sample.blocked_by(verdict, "egress.domain.allowlist")
}

test_missing_egress_domain_allowlist_connection_2 if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/granted"))
	sample.blocked_by(verdict, "egress.domain.allowlist")
}

test_missing_egress_domain_allowlist_connection_3 if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress"))
	sample.blocked_by(verdict, "egress.domain.allowlist")
}

test_block_egress_port_allowlist_connection if {
	verdict := sample.judge("egress", sample.egress({"host": {"port": 22}}))
	sample.blocked_by(verdict, "egress.port.allowlist")
}

test_block_egress_port_allowlist_connection_2 if {
	verdict := sample.judge("egress", sample.egress({"host": {"port": null}}))
	sample.blocked_by(verdict, "egress.port.allowlist")
}

test_allow_egress_port_allowlist_connection if {
	verdict := sample.judge("egress", sample.egress({}))
	sample.allowed(verdict, "egress.port.allowlist")
}

test_allow_egress_port_allowlist_connection_2 if {
	verdict := sample.judge("egress", sample.dns({}))
	sample.allowed(verdict, "egress.port.allowlist")
}

test_missing_egress_port_allowlist_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/host/port"))
	sample.blocked_by(verdict, "egress.port.allowlist")
}

# Endpoints of these tests: the bundle as shipped has none.
_listed := {"docs.python.org:5432": true}

_raw(changes) := sample.egress(object.union({"layer": "tcp", "sni": "", "host": {"port": 5432}}, changes))

test_allow_egress_port_allowlist_endpoint if {
	verdict := sample.judge("egress", _raw({})) with data.opensafe.config.endpoints as _listed
	sample.allowed(verdict, "egress.port.allowlist")
	verdict.action == "allow"
}

test_allow_egress_port_allowlist_endpoint_of_a_call if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [object.union(sample.host("docs.python.org", ["allowed"]), {"port": 5432})]})) with data.opensafe.config.endpoints as _listed
	sample.allowed(verdict, "egress.port.allowlist")
}

test_block_egress_port_allowlist_endpoint_not_listed if {
	verdict := sample.judge("egress", _raw({}))
	sample.blocked_by(verdict, "egress.port.allowlist")
}

test_block_egress_port_allowlist_endpoint_of_another_port if {
	verdict := sample.judge("egress", _raw({"host": {"port": 5433}})) with data.opensafe.config.endpoints as _listed
	sample.blocked_by(verdict, "egress.port.allowlist")
}

test_block_egress_port_allowlist_endpoint_of_another_name if {
	verdict := sample.judge("egress", _raw({"host": {"name": "www.docs.python.org", "port": 5432}})) with data.opensafe.config.endpoints as _listed
	sample.blocked_by(verdict, "egress.port.allowlist")
}

test_block_egress_port_allowlist_endpoint_of_another_layer if {
	every layer in ["tls", "http", "dns"] {
		verdict := sample.judge("egress", _raw({"layer": layer})) with data.opensafe.config.endpoints as _listed
		sample.blocked_by(verdict, "egress.port.allowlist")
	}
}

test_missing_egress_port_allowlist_endpoint if {
	every field in ["/egress/host/port", "/egress/host/name", "/egress/layer"] {
		verdict := sample.judge("egress", sample.without(_raw({}), field)) with data.opensafe.config.endpoints as _listed
		sample.blocked_by(verdict, "egress.port.allowlist")
	}
}

test_missing_egress_port_allowlist_endpoint_data if {
	without := object.remove(data.opensafe.config, ["endpoints"])
	verdict := sample.judge("egress", _raw({})) with data.opensafe.config as without
	sample.blocked_by(verdict, "egress.port.allowlist")
}

test_block_egress_address_private_deny_connection if {
	verdict := sample.judge("egress", sample.egress({"address": {"classes": {"private": true}}}))
	sample.blocked_by(verdict, "egress.address.private.deny")
}

test_block_egress_address_private_deny_connection_2 if {
	verdict := sample.judge("egress", sample.dns({"host": {"classes": {"private": true}}}))
	sample.blocked_by(verdict, "egress.address.private.deny")
}

test_allow_egress_address_private_deny_connection if {
	verdict := sample.judge("egress", sample.egress({}))
	sample.allowed(verdict, "egress.address.private.deny")
}

test_missing_egress_address_private_deny_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/address/classes"))
	sample.blocked_by(verdict, "egress.address.private.deny")
}

test_block_egress_metadata_deny_connection if {
	verdict := sample.judge("egress", sample.egress({"address": {"classes": {"metadata": true}}}))
	sample.blocked_by(verdict, "egress.metadata.deny")
}

test_allow_egress_metadata_deny_connection if {
	verdict := sample.judge("egress", sample.egress({}))
	sample.allowed(verdict, "egress.metadata.deny")
}

test_missing_egress_metadata_deny_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/address/classes"))
	sample.blocked_by(verdict, "egress.metadata.deny")
}

test_block_egress_ip_literal_deny_connection if {
	verdict := sample.judge("egress", sample.egress({"host": {"ip_literal": true}}))
	sample.blocked_by(verdict, "egress.ip.literal.deny")
}

test_allow_egress_ip_literal_deny_connection if {
	verdict := sample.judge("egress", sample.egress({}))
	sample.allowed(verdict, "egress.ip.literal.deny")
}

test_missing_egress_ip_literal_deny_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/host/ip_literal"))
	sample.blocked_by(verdict, "egress.ip.literal.deny")
}

test_block_egress_userinfo_deny_connection if {
	verdict := sample.judge("egress", sample.egress({"host": {"userinfo": true}}))
	sample.blocked_by(verdict, "egress.userinfo.deny")
}

test_allow_egress_userinfo_deny_connection if {
	verdict := sample.judge("egress", sample.egress({}))
	sample.allowed(verdict, "egress.userinfo.deny")
}

test_missing_egress_userinfo_deny_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/host/userinfo"))
	sample.blocked_by(verdict, "egress.userinfo.deny")
}

test_block_egress_domain_allowlist_of_what_is_no_host if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command(["true"])], "hosts": ["x"]}))
	sample.blocked_by(verdict, "egress.domain.allowlist")
}
