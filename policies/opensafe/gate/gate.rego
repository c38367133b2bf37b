# METADATA
# title: Gate
# description: The entry points, one a tool family; each holds the family's rules and those of every call.
package opensafe.gate

import data.opensafe.bash as bash_rules
import data.opensafe.budget
import data.opensafe.caller
import data.opensafe.egress
import data.opensafe.exec as exec_rules
import data.opensafe.read as read_rules
import data.opensafe.sandbox as sandbox_rules
import data.opensafe.tool
import data.opensafe.verdict
import data.opensafe.write as write_rules

# METADATA
# title: gate/bash
# description: Shell texts.
# entrypoint: true
bash := verdict.of("bash", _every_call("bash") | _commands, _reviews, bash_rules.allows)

# METADATA
# title: gate/exec
# description: One program with its arguments.
# entrypoint: true
exec := verdict.of("exec", _every_call("exec") | _commands, _reviews, bash_rules.program_allows)

# METADATA
# title: gate/read
# description: Reading one file.
# entrypoint: true
read := verdict.of("read", _every_call("read") | read_rules.blocks, set(), read_rules.allows)

# METADATA
# title: gate/write
# description: Writing one file.
# entrypoint: true
write := verdict.of("write", ((_every_call("write") | write_rules.blocks) | write_rules.tool_blocks), set(), write_rules.allows)

# METADATA
# title: gate/list
# description: Listing one directory.
# entrypoint: true
list := verdict.of("list", _every_call("list") | read_rules.blocks, set(), read_rules.list_allows)

# METADATA
# title: gate/sandbox
# description: Making a sandbox.
# entrypoint: true
sandbox := verdict.of("sandbox", _sandboxes, set(), sandbox_rules.allows)

_every_call(family) := ((tool.blocks(family) | caller.blocks) | caller.tool_blocks) | budget.blocks

_commands := (((_programs | egress.blocks) | read_rules.blocks) | read_rules.command_blocks) | write_rules.blocks

_programs := bash_rules.blocks | exec_rules.blocks

_reviews := bash_rules.reviews | exec_rules.reviews

_sandboxes := (sandbox_rules.blocks | caller.blocks) | caller.sandbox_blocks
