"""OpenSafe: tool calls of LLM agents, judged outside the agent's reach and run where they can do no harm.

Importing the package loads nothing: every process of the daemon imports only the rooms it needs.
"""

__version__ = "0.1.0"
