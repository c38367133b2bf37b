"""AgentDojo's injected tasks before the gate.

AgentDojo (E. Debenedetti and others, NeurIPS 2024, arXiv:2406.13352) has user's tasks in four small worlds, texts that
attackers plant in them, and a check for each: was the user's task done, was the attacker's goal reached. Here its tools
are tools of a site, as a manifest in a signed bundle says, and the agent obeys every planted text. The port is that of
inspect_evals, which is an extra of this package: `redteam`.
"""
