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
