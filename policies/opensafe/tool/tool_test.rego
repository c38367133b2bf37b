package opensafe.tool_test

import data.opensafe.sample

test_block_tool_unknown_deny if {
	verdict := sample.judge("bash", sample.call("Frob", {"commands": [sample.command([`python3`, `test_suite.py`])]}))
	sample.blocked_by(verdict, "tool.unknown.deny")
}

test_block_tool_unknown_deny_case if {
	verdict := sample.judge("bash", sample.call("bash", {"commands": [sample.command([`python3`, `test_suite.py`])]}))
	sample.blocked_by(verdict, "tool.unknown.deny")
}

test_block_tool_unknown_deny_family if {
	verdict := sample.judge("bash", sample.call("Read", {"commands": [sample.command([`python3`, `test_suite.py`])]}))
	sample.blocked_by(verdict, "tool.unknown.deny")
}

test_block_tool_unknown_deny_kind if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`python3`, `test_suite.py`])]), {"kind": "sandbox"}))
	sample.blocked_by(verdict, "tool.unknown.deny")
}

test_allow_tool_unknown_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `test_suite.py`])]))
	sample.allowed(verdict, "tool.unknown.deny")
}

test_missing_tool_unknown_deny if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`python3`, `test_suite.py`])]), "/call/tool"))
	sample.blocked_by(verdict, "tool.unknown.deny")
}

test_missing_tool_unknown_deny_kind if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`python3`, `test_suite.py`])]), "/kind"))
	sample.blocked_by(verdict, "tool.unknown.deny")
}

_judge(facts, pointer) := verdict if {
	question := object.union(sample.call("Deploy", {}), {"call": facts})
	verdict := sample.judge("tool", _less(question, pointer)) with data.opensafe.config.tools as {"Deploy": "tool"} with data.opensafe.config.roles as {"developer": {"Deploy": true, "mcp:tickets": true}} with data.opensafe.config.servers as {"tickets": "any", "notes": {"list": true}}
}

_less(question, "") := question

_less(question, pointer) := sample.without(question, pointer) if pointer != ""

test_allow_tool_site_allow if {
	verdict := _judge({}, "")
	sample.allowed_by(verdict, "tool.site.allow")
}

test_allow_tool_site_allow_server if {
	verdict := _judge({"tool": "create", "server": "tickets", "description_digest": "aa", "pinned_digest": "aa"}, "")
	sample.allowed_by(verdict, "tool.site.allow")
}

test_block_tool_site_allow if {
	verdict := _judge({"reads": [sample.path("/etc/shadow", ["secret", "system"])]}, "")
	sample.blocked_by(verdict, "tool.read.secrets.block")
}

test_block_tool_site_allow_host if {
	verdict := _judge({"hosts": [sample.host("evil.example.com", [])]}, "")
	sample.blocked_by(verdict, "egress.domain.allowlist")
}

test_missing_tool_site_allow if {
	verdict := _judge({}, "/call/hosts")
	sample.blocked_by(verdict, "default.deny")
}

test_block_tool_schema_pinned if {
	verdict := _judge({"tool": "create", "server": "tickets", "description_digest": "aa", "pinned_digest": "aa", "pinned_digest": "bb"}, "")
	sample.blocked_by(verdict, "tool.schema.pinned")
}

test_block_tool_schema_pinned_empty if {
	verdict := _judge({"tool": "create", "server": "tickets", "description_digest": "aa", "pinned_digest": "aa", "description_digest": "", "pinned_digest": ""}, "")
	sample.blocked_by(verdict, "tool.schema.pinned")
}

test_block_tool_schema_pinned_site if {
	verdict := _judge({"description_digest": "aa", "pinned_digest": "bb"}, "")
	sample.blocked_by(verdict, "tool.schema.pinned")
}

test_allow_tool_schema_pinned if {
	verdict := _judge({"tool": "create", "server": "tickets", "description_digest": "aa", "pinned_digest": "aa"}, "")
	sample.allowed(verdict, "tool.schema.pinned")
}

test_missing_tool_schema_pinned if {
	verdict := _judge({"tool": "create", "server": "tickets", "description_digest": "aa", "pinned_digest": "aa"}, "/call/pinned_digest")
	sample.blocked_by(verdict, "tool.schema.pinned")
}

test_missing_tool_schema_pinned_both if {
	verdict := _judge({}, "/call/description_digest")
	sample.blocked_by(verdict, "tool.schema.pinned")
}

test_block_mcp_server_allowlist if {
	verdict := _judge({"tool": "create", "server": "tickets", "description_digest": "aa", "pinned_digest": "aa", "server": "evil"}, "")
	sample.blocked_by(verdict, "mcp.server.allowlist")
}

test_block_mcp_server_allowlist_tool if {
	verdict := _judge({"tool": "create", "server": "tickets", "description_digest": "aa", "pinned_digest": "aa", "server": "notes"}, "")
	sample.blocked_by(verdict, "mcp.server.allowlist")
}

test_allow_mcp_server_allowlist if {
	verdict := _judge({"tool": "create", "server": "tickets", "description_digest": "aa", "pinned_digest": "aa"}, "")
	sample.allowed(verdict, "mcp.server.allowlist")
}

test_missing_mcp_server_allowlist if {
	verdict := _judge({"tool": "create", "server": "tickets", "description_digest": "aa", "pinned_digest": "aa"}, "/call/server")
	sample.blocked_by(verdict, "mcp.server.allowlist")
}

test_review_tool_risk_review if {
	verdict := _judge({"risk": "high"}, "")
	sample.reviewed_by(verdict, "tool.risk.review")
}

test_allow_tool_risk_review if {
	verdict := _judge({"risk": "medium"}, "")
	sample.allowed(verdict, "tool.risk.review")
}

test_block_tool_risk_review if {
	verdict := _judge({"risk": "extreme"}, "")
	sample.blocked_by(verdict, "tool.risk.review")
}

test_missing_tool_risk_review if {
	verdict := _judge({}, "/call/risk")
	sample.blocked_by(verdict, "tool.risk.review")
}

_tainted(facts, pointer) := verdict if {
	question := object.union(sample.call("Deploy", {}), {"call": facts, "session": {"taints": ["secret.read", "untrusted.read"]}})
	verdict := sample.judge("tool", _less(question, pointer)) with data.opensafe.config.tools as {"Deploy": "tool"} with data.opensafe.config.roles as {"developer": {"Deploy": true}}
}

test_review_tool_taint_review if {
	verdict := _tainted({"risk": "medium"}, "")
	sample.reviewed_by(verdict, "tool.taint.review")
}

test_review_tool_taint_review_high if {
	verdict := _tainted({"risk": "high"}, "")
	sample.reviewed_by(verdict, "tool.taint.review")
}

test_review_tool_taint_review_unset if {
	verdict := _tainted({"risk": "low"}, "") with data.opensafe.config.tainted_risks as {}
	sample.reviewed_by(verdict, "tool.taint.review")
}

test_block_tool_taint_review if {
	verdict := _tainted({"risk": "medium"}, "") with data.opensafe.config.tainted_risks as {"medium": "block"}
	sample.blocked_by(verdict, "tool.taint.review")
}

test_allow_tool_taint_review if {
	verdict := _tainted({"risk": "low"}, "")
	sample.allowed(verdict, "tool.taint.review")
}

test_allow_tool_taint_review_unread if {
	verdict := _judge({"risk": "medium"}, "")
	sample.allowed(verdict, "tool.taint.review")
}

test_missing_tool_taint_review if {
	verdict := _judge({"risk": "medium"}, "/session/taints")
	sample.reviewed_by(verdict, "tool.taint.review")
}

test_missing_tool_taint_review_risk if {
	verdict := _tainted({}, "/call/risk")
	sample.blocked_by(verdict, "tool.risk.review")
}

test_block_tool_unknown_deny_site if {
	verdict := _judge({"tool": "Other"}, "")
	sample.blocked_by(verdict, "tool.unknown.deny")
}

test_block_caller_role_tools_server if {
	verdict := _judge({"tool": "create", "server": "tickets", "description_digest": "aa", "pinned_digest": "aa", "server": "notes"}, "")
	sample.blocked_by(verdict, "caller.role.tools")
}
