"""Attribute and span names.

gen_ai.*: OpenTelemetry semantic conventions for generative AI, v0.1.0 (status Development), so they are held here
and not imported. opensafe.*: ours, until a convention for verdicts is agreed on. error.type values are the
`OutcomeKind` of a call that did not exit with 0, `policy_denied` for a block and for a connection that policy refuses,
and `packet_refused` for what the gateway's packet rules do. server.*, network.*, http.*: core conventions, v1.45.0.
"""

from typing import Final

OPERATION_NAME: Final = "gen_ai.operation.name"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
ERROR_TYPE: Final = "error.type"
PROCESS_EXIT_CODE: Final = "process.exit.code"
SECURITY_RULE_NAME: Final = "security_rule.name"

SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
PEER_ADDRESS: Final = "network.peer.address"
PROTOCOL: Final = "network.protocol.name"
TRANSPORT: Final = "network.transport"
HTTP_METHOD: Final = "http.request.method"

EXECUTE_TOOL: Final = "execute_tool"
INVOKE_AGENT: Final = "invoke_agent"

SESSION_ID: Final = "opensafe.session.id"
SANDBOX_ID: Final = "opensafe.sandbox.id"
SANDBOX_WARM: Final = "opensafe.sandbox.warm"
EXEC_ID: Final = "opensafe.exec.id"
DECISION_ID: Final = "opensafe.policy.decision_id"
ACTION: Final = "opensafe.policy.action"
RULES: Final = "opensafe.policy.rules"
ENTRYPOINT: Final = "opensafe.policy.entrypoint"
BUNDLE_REVISION: Final = "opensafe.policy.bundle.revision"
REVIEW_ID: Final = "opensafe.review.id"
REVIEW_STATE: Final = "opensafe.review.state"
OUTCOME: Final = "opensafe.outcome"
TRUNCATED: Final = "opensafe.output.truncated"
DETAIL: Final = "opensafe.outcome.detail"
MASKED: Final = "opensafe.masked"
TOKENS: Final = "opensafe.usage.tokens"
COST: Final = "opensafe.usage.cost_microusd"
EGRESS_LAYER: Final = "opensafe.egress.layer"
EGRESS_STATE: Final = "opensafe.egress.state"
EGRESS_SENT: Final = "opensafe.egress.sent_bytes"
EGRESS_RECEIVED: Final = "opensafe.egress.received_bytes"
EGRESS_COUNT: Final = "opensafe.egress.count"
EGRESS_ALLOWED: Final = "opensafe.egress.allowed"
EGRESS_REFUSED: Final = "opensafe.egress.refused"

EVENT_VIOLATION: Final = "opensafe.violation"

SPAN_POLICY: Final = "policy.evaluate"
SPAN_REVIEW: Final = "review.park"
SPAN_WAIT: Final = "review.wait"
SPAN_SANDBOX_EXEC: Final = "sandbox.exec"
SPAN_SANDBOX_CREATE: Final = "sandbox.create"
SPAN_CONNECT: Final = "egress.connect"
SPAN_REQUEST: Final = "egress.request"
SPAN_REFUSE: Final = "egress.refuse"
#: Before the verb of a file tool's run: file.read, file.write …
SPAN_FILE: Final = "file."
