# METADATA
# title: Gate
# description: >-
#   The entry points: one a tool family, each with the family's rules and those of every call, and one for each
#   question that is no call.
package opensafe.gate

import data.opensafe.archive
import data.opensafe.bash as bash_rules
import data.opensafe.budget
import data.opensafe.caller
import data.opensafe.connection
import data.opensafe.delete
import data.opensafe.egress as egress_rules
import data.opensafe.exec as exec_rules
import data.opensafe.files as files_rules
import data.opensafe.link
import data.opensafe.program
import data.opensafe.read as read_rules
import data.opensafe.runtime as runtime_rules
import data.opensafe.sandbox as sandbox_rules
import data.opensafe.secret
import data.opensafe.session
import data.opensafe.tool as tool_rules
import data.opensafe.verdict
import data.opensafe.write as write_rules

# METADATA
# title: gate/bash
# description: Shell texts.
# entrypoint: true
bash := verdict.of("bash", _every_call("bash") | _commands, _asked | _command_reviews, bash_rules.allows)

# METADATA
# title: gate/exec
# description: One program with its arguments.
# entrypoint: true
exec := verdict.of("exec", _every_call("exec") | _commands, _asked | _command_reviews, bash_rules.program_allows)

# METADATA
# title: gate/read
# description: Reading one file.
# entrypoint: true
read := verdict.of("read", ((_every_call("read") | read_rules.blocks) | read_rules.tool_blocks), _asked, read_rules.allows)

# METADATA
# title: gate/write
# description: Writing one file.
# entrypoint: true
write := verdict.of("write", _every_call("write") | _writes, _asked | write_rules.reviews, write_rules.allows)

# METADATA
# title: gate/list
# description: Listing one directory.
# entrypoint: true
list := verdict.of("list", _every_call("list") | read_rules.blocks, _asked, read_rules.list_allows)

# METADATA
# title: gate/files
# description: >-
#   Names and trees: removing, moving, making directories, watching, downloading, unpacking. Whatever the call reads,
#   writes and deletes is judged like a command's.
# entrypoint: true
files := verdict.of("files", _every_call("files") | _files, _asked | write_rules.reviews, files_rules.allows)

# METADATA
# title: gate/tool
# description: Tools that the site or another server offers; whatever their facts show is judged like a command's.
# entrypoint: true
tool := verdict.of(
	"tool", ((_every_call("tool") | _commands) | tool_rules.foreign_blocks),
	((_asked | _command_reviews) | tool_rules.reviews), tool_rules.allows,
)

# METADATA
# title: gate/sandbox
# description: Making a sandbox.
# entrypoint: true
sandbox := verdict.of("sandbox", _sandboxes, set(), sandbox_rules.allows)

# METADATA
# title: gate/egress
# description: A connection or DNS question of a sandbox.
# entrypoint: true
egress := verdict.of("egress", _connections, connection.reviews | session.taint_reviews, connection.allows)

# METADATA
# title: gate/runtime
# description: An event that the sentry's monitor saw.
# entrypoint: true
runtime := verdict.of("runtime", runtime_rules.blocks, set(), runtime_rules.allows)

_every_call(family) := (((tool_rules.blocks(family) | caller.blocks) | caller.tool_blocks) | budget.blocks) | session.blocks

_asked := session.reviews

_commands := ((_starts | _paths) | egress_rules.blocks) | _network

_starts := ((bash_rules.blocks | exec_rules.blocks) | program.blocks) | archive.blocks

_paths := ((((read_rules.blocks | read_rules.command_blocks) | write_rules.blocks) | delete.blocks) | link.blocks) | secret.blocks

_network := budget.network_blocks | session.sequence_blocks

_command_reviews := ((bash_rules.reviews | exec_rules.reviews) | write_rules.reviews) | session.taint_reviews

_files := (read_rules.blocks | write_rules.blocks) | delete.blocks

_writes := (write_rules.blocks | write_rules.tool_blocks) | secret.content_blocks

_sandboxes := (sandbox_rules.blocks | caller.blocks) | caller.sandbox_blocks

_connections := ((egress_rules.blocks | connection.blocks) | caller.blocks) | _network
