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
