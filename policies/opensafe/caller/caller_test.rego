package opensafe.caller_test

import data.opensafe.sample

test_block_caller_unknown_deny if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`python3`, `test_suite.py`])]), {"principal": {"roles": ["stranger"]}}))
	sample.blocked_by(verdict, "caller.unknown.deny")
}

test_block_caller_unknown_deny_nameless if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`python3`, `test_suite.py`])]), {"principal": {"name": ""}}))
	sample.blocked_by(verdict, "caller.unknown.deny")
}

test_allow_caller_unknown_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `test_suite.py`])]))
	sample.allowed(verdict, "caller.unknown.deny")
}

test_missing_caller_unknown_deny if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`python3`, `test_suite.py`])]), "/principal/name"))
	sample.blocked_by(verdict, "caller.unknown.deny")
}

test_missing_caller_unknown_deny_principal if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`python3`, `test_suite.py`])]), "/principal"))
	sample.blocked_by(verdict, "caller.unknown.deny")
}

test_block_caller_role_tools if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`python3`, `test_suite.py`])]), {"principal": {"roles": ["reader"]}}))
	sample.blocked_by(verdict, "caller.role.tools")
}

test_allow_caller_role_tools if {
	verdict := sample.judge("bash", sample.bash([sample.command([`python3`, `test_suite.py`])]))
	sample.allowed(verdict, "caller.role.tools")
}

test_missing_caller_role_tools if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`python3`, `test_suite.py`])]), "/principal/roles"))
	sample.blocked_by(verdict, "caller.role.tools")
}

test_block_caller_role_tools_sandbox if {
	verdict := sample.judge("sandbox", object.union(sample.sandbox, {"principal": {"roles": ["reviewer"]}}))
	sample.blocked_by(verdict, "caller.role.tools")
}

test_allow_caller_role_tools_sandbox if {
	verdict := sample.judge("sandbox", sample.sandbox)
	sample.allowed(verdict, "caller.role.tools")
}

test_block_caller_ban_deny if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"session": {"banned": true}}))
	sample.blocked_by(verdict, "caller.ban.deny")
}

test_allow_caller_ban_deny if {
	verdict := sample.judge("bash", sample.bash([sample.command([`ls`])]))
	sample.allowed(verdict, "caller.ban.deny")
}

test_missing_caller_ban_deny if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`ls`])]), "/session/banned"))
	sample.blocked_by(verdict, "caller.ban.deny")
}

test_missing_caller_ban_deny_2 if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`ls`])]), "/session"))
	sample.blocked_by(verdict, "caller.ban.deny")
}
