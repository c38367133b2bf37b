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
import data.opensafe.request
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
bash := verdict.of("bash", array.concat(array.concat(_every_call("bash"), _commands), [bash_rules.allows]))

# METADATA
# title: gate/exec
# description: One program with its arguments.
# entrypoint: true
exec := verdict.of("exec", array.concat(array.concat(_every_call("exec"), _commands), [bash_rules.program_allows]))

# METADATA
# title: gate/read
# description: Reading one file.
# entrypoint: true
read := verdict.of("read", array.concat(_every_call("read"), [read_rules.blocks, read_rules.tool_blocks, read_rules.allows]))

# METADATA
# title: gate/write
# description: Writing one file.
# entrypoint: true
write := verdict.of("write", array.concat(_every_call("write"), [
	write_rules.blocks, write_rules.tool_blocks, secret.content_blocks, write_rules.reviews, write_rules.allows,
]))

# METADATA
# title: gate/list
# description: Listing one directory.
# entrypoint: true
list := verdict.of("list", array.concat(_every_call("list"), [read_rules.blocks, read_rules.list_allows]))

# METADATA
# title: gate/files
# description: >-
#   Names and trees: removing, moving, making directories, watching, downloading, unpacking. Whatever the call reads,
#   writes and deletes is judged like a command's.
# entrypoint: true
files := verdict.of("files", array.concat(_every_call("files"), [
	read_rules.blocks, write_rules.blocks, delete.blocks, write_rules.reviews, files_rules.allows,
]))

# METADATA
# title: gate/tool
# description: Tools that the site or another server offers; whatever their facts show is judged like a command's.
# entrypoint: true
tool := verdict.of("tool", array.concat(
	array.concat(_every_call("tool"), _commands),
	[tool_rules.foreign_blocks, tool_rules.reviews, tool_rules.allows],
))

# METADATA
# title: gate/sandbox
# description: Making a sandbox.
# entrypoint: true
sandbox := verdict.of("sandbox", [sandbox_rules.blocks, caller.blocks, caller.sandbox_blocks, sandbox_rules.allows])

# METADATA
# title: gate/egress
# description: A connection or DNS question of a sandbox.
# entrypoint: true
egress := verdict.of("egress", [
	egress_rules.blocks, connection.blocks, request.blocks, caller.blocks, budget.network_blocks, session.sequence_blocks,
	connection.reviews, session.taint_reviews, connection.allows,
])

# METADATA
# title: gate/runtime
# description: An event that the sentry's monitor saw.
# entrypoint: true
runtime := verdict.of("runtime", [runtime_rules.blocks, runtime_rules.allows])

# Lists of the rules' sets, not their union: a union hashes every hit again.
_every_call(family) := [
	tool_rules.blocks(family), caller.blocks, caller.tool_blocks, caller.user_blocks, budget.blocks,
	session.blocks, session.reviews,
]

_commands := [
	bash_rules.blocks, exec_rules.blocks, program.blocks, archive.blocks, read_rules.blocks,
	read_rules.command_blocks, write_rules.blocks, delete.blocks, link.blocks, secret.blocks, egress_rules.blocks,
	budget.network_blocks, session.sequence_blocks, bash_rules.reviews, exec_rules.reviews, write_rules.reviews,
	session.taint_reviews,
]
