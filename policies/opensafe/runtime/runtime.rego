# METADATA
# title: Runtime
# description: Events that the sentry's monitor saw. A block ends the call that caused it.
package opensafe.runtime

import data.opensafe.config
import data.opensafe.hit

# METADATA
# title: System calls
# description: Calls that no honest program makes; the call's filter has stopped them already.
# custom:
#   id: runtime.syscall.deny
#   severity: critical
#   threat: E2
blocks contains hit.block(
	"runtime.syscall.deny", "critical",
	$"a program made the system call {_syscall}", _syscall, "Run a program that does without it.",
) if {
	not _tolerated
}

# METADATA
# title: Unannounced programs
# description: A program that no running call's grant covers.
# custom:
#   id: runtime.exec.unannounced
#   severity: critical
#   threat: T1
blocks contains hit.block(
	"runtime.exec.unannounced", "critical",
	$"{_file} was started by no running call", _file, "Start programs by calling a tool.",
) if {
	not _announced
}

# METADATA
# title: Right question
# description: This entry point judges events only.
# custom:
#   id: default.deny
#   severity: high
#   threat: E5
blocks contains hit.block(
	"default.deny", "high",
	"the question is not about an event", object.get(input, "kind", "?"), "Ask the tool's own entry point.",
) if {
	not input.kind == "runtime"
}

# METADATA
# title: Expected events
# description: A program that a running call's grant covers, or a system call this site tolerates.
# custom:
#   id: runtime.exec.announced
#   severity: info
#   threat: none
allows contains hit.allow("runtime.exec.announced", $"the {input.runtime.event} was expected", _file) if {
	_tolerated
	_announced
}

_tolerated if input.runtime.event == "exec"

_tolerated if {
	input.runtime.event == "syscall"
	config.syscalls[input.runtime.syscall]
}

_announced if input.runtime.event == "syscall"

_announced if {
	input.runtime.event == "exec"
	input.runtime.announced == true
}

_syscall := object.get(input, ["runtime", "syscall"], "?")

_file := object.get(input, ["runtime", "path"], "?")
