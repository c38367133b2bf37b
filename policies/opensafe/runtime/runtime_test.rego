package opensafe.runtime_test

import data.opensafe.sample

test_block_runtime_syscall_deny if {
	verdict := sample.judge("runtime", sample.runtime({"event": "syscall", "syscall": "bpf"}))
	sample.blocked_by(verdict, "runtime.syscall.deny")
}

test_allow_runtime_syscall_deny if {
	verdict := sample.judge("runtime", sample.runtime({}))
	sample.allowed(verdict, "runtime.syscall.deny")
}

test_missing_runtime_syscall_deny if {
	verdict := sample.judge("runtime", sample.without(sample.runtime({}), "/runtime/event"))
	sample.blocked_by(verdict, "runtime.syscall.deny")
}

test_missing_runtime_syscall_deny_2 if {
	verdict := sample.judge("runtime", sample.without(sample.runtime({}), "/runtime"))
	sample.blocked_by(verdict, "runtime.syscall.deny")
}

test_block_runtime_exec_unannounced if {
	verdict := sample.judge("runtime", sample.runtime({"announced": false}))
	sample.blocked_by(verdict, "runtime.exec.unannounced")
}

test_allow_runtime_exec_unannounced if {
	verdict := sample.judge("runtime", sample.runtime({}))
	sample.allowed(verdict, "runtime.exec.unannounced")
}

test_missing_runtime_exec_unannounced if {
	verdict := sample.judge("runtime", sample.without(sample.runtime({}), "/runtime/announced"))
	sample.blocked_by(verdict, "runtime.exec.unannounced")
}

test_missing_runtime_exec_unannounced_2 if {
	verdict := sample.judge("runtime", sample.without(sample.runtime({}), "/runtime"))
	sample.blocked_by(verdict, "runtime.exec.unannounced")
}

test_allow_runtime_exec_announced if {
	verdict := sample.judge("runtime", sample.runtime({}))
	sample.allowed_by(verdict, "runtime.exec.announced")
}

test_block_runtime_exec_announced if {
	verdict := sample.judge("runtime", sample.runtime({"event": "open"}))
	sample.blocked_by(verdict, "runtime.syscall.deny")
}

test_missing_runtime_exec_announced if {
	verdict := sample.judge("runtime", sample.without(sample.runtime({}), "/runtime/event"))
	sample.blocked_by(verdict, "runtime.exec.unannounced")
}

test_block_default_deny_kind if {
	verdict := sample.judge("runtime", object.union(sample.runtime({}), {"kind": "call"}))
	sample.blocked_by(verdict, "default.deny")
}

test_allow_runtime_syscall_deny_tolerated if {
	question := sample.runtime({"event": "syscall", "syscall": "bpf"})
	verdict := sample.judge("runtime", question) with data.opensafe.config.syscalls as {"bpf": true}
	sample.allowed(verdict, "runtime.syscall.deny")
}
