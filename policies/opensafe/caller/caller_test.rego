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

_listed := {"developer": {"base": {"nobody": true}}}

_as(user) := object.union(sample.bash([sample.command([`ls`])]), {"call": {"user": user}})

_nobody := {"name": "nobody", "uid": 65534, "gid": 65534, "groups": [], "home": "/"}

test_block_caller_user_role if {
	verdict := sample.judge("bash", _as(_nobody))
	sample.blocked_by(verdict, "caller.user.role")
}

test_allow_caller_user_role if {
	verdict := sample.judge("bash", _as(_nobody)) with data.opensafe.config.users as _listed
	sample.allowed(verdict, "caller.user.role")
	verdict.grant.users == ["nobody"]
}

test_allow_caller_user_role_none if {
	verdict := sample.judge("bash", _as(null)) with data.opensafe.config.users as _listed
	sample.allowed(verdict, "caller.user.role")
	verdict.grant.users == []
}

test_block_caller_user_role_template if {
	question := object.union(_as(_nobody), {"sandbox": {"template": "other"}})
	verdict := sample.judge("bash", question) with data.opensafe.config.users as _listed
	sample.blocked_by(verdict, "caller.user.role")
}

test_block_caller_user_role_of_another_role if {
	verdict := sample.judge("bash", _as(_nobody)) with data.opensafe.config.users as {"reader": _listed.developer}
	sample.blocked_by(verdict, "caller.user.role")
}

# Another name for uid 0 is root all the same.
test_block_caller_user_role_alias_of_root if {
	alias := object.union(_nobody, {"uid": 0})
	verdict := sample.judge("bash", _as(alias)) with data.opensafe.config.users as _listed
	sample.blocked_by(verdict, "caller.user.role")
}

test_allow_caller_user_role_root if {
	alias := object.union(_nobody, {"uid": 0})
	verdict := sample.judge("bash", _as(alias)) with data.opensafe.config.users as {"developer": {"base": {"root": true}}}
	sample.allowed(verdict, "caller.user.role")
}

test_missing_caller_user_role if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`ls`])]), "/call/user"))
	sample.blocked_by(verdict, "caller.user.role")
}
