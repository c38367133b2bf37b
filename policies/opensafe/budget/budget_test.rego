package opensafe.budget_test

import data.opensafe.sample

test_block_budget_calls_ceiling if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`python3`, `test_suite.py`])]), {"budget": {"usage": {"calls": 10000}}}))
	sample.blocked_by(verdict, "budget.calls.ceiling")
}

test_block_budget_calls_ceiling_session if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`python3`, `test_suite.py`])]), {"budget": {"usage": {"calls": 5}, "limits": {"calls": 5}}}))
	sample.blocked_by(verdict, "budget.calls.ceiling")
}

test_block_budget_calls_ceiling_site if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`python3`, `test_suite.py`])]), {"budget": {"usage": {"calls": 10000}, "limits": {"calls": 99999}}}))
	sample.blocked_by(verdict, "budget.calls.ceiling")
}

test_block_budget_calls_ceiling_negative if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`python3`, `test_suite.py`])]), {"budget": {"usage": {"calls": -1}}}))
	sample.blocked_by(verdict, "budget.calls.ceiling")
}

test_allow_budget_calls_ceiling if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`python3`, `test_suite.py`])]), {"budget": {"usage": {"calls": 4}, "limits": {"calls": 5}}}))
	sample.allowed(verdict, "budget.calls.ceiling")
}

test_missing_budget_calls_ceiling if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`python3`, `test_suite.py`])]), "/budget/usage/calls"))
	sample.blocked_by(verdict, "budget.calls.ceiling")
}

test_missing_budget_calls_ceiling_budget if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`python3`, `test_suite.py`])]), "/budget"))
	sample.blocked_by(verdict, "budget.calls.ceiling")
}

test_block_budget_wall_ceiling if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"budget": {"usage": {"wall_s": 900000000000}}}))
	sample.blocked_by(verdict, "budget.wall.ceiling")
}

test_block_budget_wall_ceiling_own if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"budget": {"usage": {"wall_s": 5}, "limits": {"wall_s": 5}}}))
	sample.blocked_by(verdict, "budget.wall.ceiling")
}

test_block_budget_wall_ceiling_principal if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"budget": {"principal": {"wall_s": 900000000000}}}))
	sample.blocked_by(verdict, "budget.wall.ceiling")
}

test_allow_budget_wall_ceiling if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"budget": {"usage": {"wall_s": 4}, "limits": {"wall_s": 5}}}))
	sample.allowed(verdict, "budget.wall.ceiling")
}

test_missing_budget_wall_ceiling if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`ls`])]), "/budget/usage/wall_s"))
	sample.blocked_by(verdict, "budget.wall.ceiling")
}

test_missing_budget_wall_ceiling_principal if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`ls`])]), "/budget/principal/wall_s"))
	sample.blocked_by(verdict, "budget.wall.ceiling")
}

test_block_budget_cost_ceiling if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"budget": {"usage": {"tokens": 900000000000}}}))
	sample.blocked_by(verdict, "budget.cost.ceiling")
}

test_block_budget_cost_ceiling_own if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"budget": {"usage": {"tokens": 5}, "limits": {"tokens": 5}}}))
	sample.blocked_by(verdict, "budget.cost.ceiling")
}

test_block_budget_cost_ceiling_principal if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"budget": {"principal": {"tokens": 900000000000}}}))
	sample.blocked_by(verdict, "budget.cost.ceiling")
}

test_allow_budget_cost_ceiling if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"budget": {"usage": {"tokens": 4}, "limits": {"tokens": 5}}}))
	sample.allowed(verdict, "budget.cost.ceiling")
}

test_missing_budget_cost_ceiling if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`ls`])]), "/budget/usage/tokens"))
	sample.blocked_by(verdict, "budget.cost.ceiling")
}

test_missing_budget_cost_ceiling_principal if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`ls`])]), "/budget/principal/tokens"))
	sample.blocked_by(verdict, "budget.cost.ceiling")
}

test_block_budget_cost_ceiling_money if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"budget": {"usage": {"cost_microusd": 900000000000}}}))
	sample.blocked_by(verdict, "budget.cost.ceiling")
}

test_block_budget_cost_ceiling_money_own if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"budget": {"usage": {"cost_microusd": 5}, "limits": {"cost_microusd": 5}}}))
	sample.blocked_by(verdict, "budget.cost.ceiling")
}

test_block_budget_cost_ceiling_money_principal if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"budget": {"principal": {"cost_microusd": 900000000000}}}))
	sample.blocked_by(verdict, "budget.cost.ceiling")
}

test_allow_budget_cost_ceiling_money if {
	verdict := sample.judge("bash", object.union(sample.bash([sample.command([`ls`])]), {"budget": {"usage": {"cost_microusd": 4}, "limits": {"cost_microusd": 5}}}))
	sample.allowed(verdict, "budget.cost.ceiling")
}

test_missing_budget_cost_ceiling_money if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`ls`])]), "/budget/usage/cost_microusd"))
	sample.blocked_by(verdict, "budget.cost.ceiling")
}

test_missing_budget_cost_ceiling_money_principal if {
	verdict := sample.judge("bash", sample.without(sample.bash([sample.command([`ls`])]), "/budget/principal/cost_microusd"))
	sample.blocked_by(verdict, "budget.cost.ceiling")
}

test_block_egress_bytes_budget if {
	verdict := sample.judge("bash", object.union(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), {"budget": {"usage": {"egress_bytes": 900000000000}}}))
	sample.blocked_by(verdict, "egress.bytes.budget")
}

test_block_egress_bytes_budget_2 if {
	verdict := sample.judge("bash", object.union(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), {"budget": {"principal": {"egress_bytes": 900000000000}}}))
	sample.blocked_by(verdict, "egress.bytes.budget")
}

test_allow_egress_bytes_budget if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.allowed(verdict, "egress.bytes.budget")
}

test_missing_egress_bytes_budget if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/budget/usage/egress_bytes"))
	sample.blocked_by(verdict, "egress.bytes.budget")
}

test_missing_egress_bytes_budget_2 if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/budget/principal/egress_bytes"))
	sample.blocked_by(verdict, "egress.bytes.budget")
}

test_block_egress_bytes_budget_connection if {
	verdict := sample.judge("egress", object.union(sample.egress({}), {"budget": {"usage": {"egress_bytes": 900000000000}}}))
	sample.blocked_by(verdict, "egress.bytes.budget")
}

test_allow_egress_bytes_budget_connection if {
	verdict := sample.judge("egress", sample.egress({}))
	sample.allowed(verdict, "egress.bytes.budget")
}

test_missing_egress_bytes_budget_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/budget/usage/egress_bytes"))
	sample.blocked_by(verdict, "egress.bytes.budget")
}

test_block_egress_requests_budget if {
	verdict := sample.judge("bash", object.union(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), {"budget": {"usage": {"requests": 900000000000}}}))
	sample.blocked_by(verdict, "egress.requests.budget")
}

test_block_egress_requests_budget_2 if {
	verdict := sample.judge("bash", object.union(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), {"budget": {"principal": {"requests": 900000000000}}}))
	sample.blocked_by(verdict, "egress.requests.budget")
}

test_allow_egress_requests_budget if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.allowed(verdict, "egress.requests.budget")
}

test_missing_egress_requests_budget if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/budget/usage/requests"))
	sample.blocked_by(verdict, "egress.requests.budget")
}

test_missing_egress_requests_budget_2 if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/budget/principal/requests"))
	sample.blocked_by(verdict, "egress.requests.budget")
}

test_block_egress_requests_budget_connection if {
	verdict := sample.judge("egress", object.union(sample.egress({}), {"budget": {"usage": {"requests": 900000000000}}}))
	sample.blocked_by(verdict, "egress.requests.budget")
}

test_allow_egress_requests_budget_connection if {
	verdict := sample.judge("egress", sample.egress({}))
	sample.allowed(verdict, "egress.requests.budget")
}

test_missing_egress_requests_budget_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/budget/usage/requests"))
	sample.blocked_by(verdict, "egress.requests.budget")
}

test_block_egress_bytes_budget_this_connection if {
	verdict := sample.judge("egress", object.union(sample.egress({"bytes_sent": 11}), {"budget": {"usage": {"egress_bytes": 0}, "limits": {"egress_bytes": 10}}}))
	sample.blocked_by(verdict, "egress.bytes.budget")
}

test_missing_egress_bytes_budget_this_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/bytes_sent"))
	sample.blocked_by(verdict, "egress.bytes.budget")
}

test_block_egress_ingress_budget if {
	verdict := sample.judge("bash", object.union(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), {"budget": {"usage": {"ingress_bytes": 900000000000}}}))
	sample.blocked_by(verdict, "egress.ingress.budget")
}

test_block_egress_ingress_budget_principal if {
	verdict := sample.judge("bash", object.union(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), {"budget": {"principal": {"ingress_bytes": 900000000000}}}))
	sample.blocked_by(verdict, "egress.ingress.budget")
}

test_allow_egress_ingress_budget if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.allowed(verdict, "egress.ingress.budget")
}

test_missing_egress_ingress_budget if {
	verdict := sample.judge("bash", sample.without(sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}), "/budget/usage/ingress_bytes"))
	sample.blocked_by(verdict, "egress.ingress.budget")
}

test_block_egress_ingress_budget_connection if {
	verdict := sample.judge("egress", object.union(sample.egress({}), {"budget": {"usage": {"ingress_bytes": 900000000000}}}))
	sample.blocked_by(verdict, "egress.ingress.budget")
}

test_block_egress_ingress_budget_this_connection if {
	verdict := sample.judge("egress", object.union(sample.egress({"bytes_received": 11}), {"budget": {"usage": {"ingress_bytes": 0}, "limits": {"ingress_bytes": 10}}}))
	sample.blocked_by(verdict, "egress.ingress.budget")
}

test_allow_egress_ingress_budget_this_connection if {
	verdict := sample.judge("egress", object.union(sample.egress({"bytes_received": 10}), {"budget": {"usage": {"ingress_bytes": 0}, "limits": {"ingress_bytes": 10}}}))
	sample.allowed(verdict, "egress.ingress.budget")
}

test_missing_egress_ingress_budget_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/budget/usage/ingress_bytes"))
	sample.blocked_by(verdict, "egress.ingress.budget")
}

test_missing_egress_ingress_budget_this_connection if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/bytes_received"))
	sample.blocked_by(verdict, "egress.ingress.budget")
}

test_block_egress_host_budget_requests if {
	verdict := sample.judge("egress", sample.egress({"host_requests": 900000000000}))
	sample.blocked_by(verdict, "egress.host.budget")
}

test_block_egress_host_budget_sent if {
	verdict := sample.judge("egress", sample.egress({"host_sent": 900000000000}))
	sample.blocked_by(verdict, "egress.host.budget")
}

test_block_egress_host_budget_received if {
	verdict := sample.judge("egress", sample.egress({"host_received": 900000000000}))
	sample.blocked_by(verdict, "egress.host.budget")
}

test_block_egress_host_budget_negative if {
	verdict := sample.judge("egress", sample.egress({"host_received": -1}))
	sample.blocked_by(verdict, "egress.host.budget")
}

test_block_egress_host_budget_this_connection if {
	limits := object.union(data.opensafe.config.ceilings, {"host": {"ingress_bytes": 10}})
	question := sample.egress({"host_received": 4, "bytes_received": 7})
	verdict := sample.judge("egress", question) with data.opensafe.config.ceilings as limits
	sample.blocked_by(verdict, "egress.host.budget")
}

test_allow_egress_host_budget_this_connection if {
	limits := object.union(data.opensafe.config.ceilings, {"host": {"ingress_bytes": 10}})
	question := sample.egress({"host_received": 4, "bytes_received": 6})
	verdict := sample.judge("egress", question) with data.opensafe.config.ceilings as limits
	sample.allowed(verdict, "egress.host.budget")
}

test_block_egress_host_budget_of_this_host if {
	limits := object.union(data.opensafe.config.ceilings, {"hosts": {"docs.python.org": {"requests": 5}}})
	verdict := sample.judge("egress", sample.egress({"host_requests": 5})) with data.opensafe.config.ceilings as limits
	sample.blocked_by(verdict, "egress.host.budget")
}

test_allow_egress_host_budget_of_another_host if {
	limits := object.union(data.opensafe.config.ceilings, {"hosts": {"nodejs.org": {"requests": 5}}})
	verdict := sample.judge("egress", sample.egress({"host_requests": 5})) with data.opensafe.config.ceilings as limits
	sample.allowed(verdict, "egress.host.budget")
}

test_allow_egress_host_budget if {
	verdict := sample.judge("egress", sample.egress({}))
	sample.allowed(verdict, "egress.host.budget")
}

test_allow_egress_host_budget_call if {
	verdict := sample.judge("bash", sample.call("Bash", {"commands": [sample.command([`curl`, `x`])], "hosts": [sample.host("docs.python.org", ["allowed"])]}))
	sample.allowed(verdict, "egress.host.budget")
}

test_missing_egress_host_budget_host_requests if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/host_requests"))
	sample.blocked_by(verdict, "egress.host.budget")
}

test_missing_egress_host_budget_host_sent if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/host_sent"))
	sample.blocked_by(verdict, "egress.host.budget")
}

test_missing_egress_host_budget_host_received if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/host_received"))
	sample.blocked_by(verdict, "egress.host.budget")
}

test_missing_egress_host_budget_bytes_sent if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/bytes_sent"))
	sample.blocked_by(verdict, "egress.host.budget")
}

test_missing_egress_host_budget_bytes_received if {
	verdict := sample.judge("egress", sample.without(sample.egress({}), "/egress/bytes_received"))
	sample.blocked_by(verdict, "egress.host.budget")
}
