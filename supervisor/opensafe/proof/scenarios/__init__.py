"""Sessions of several steps, each beside an honest twin: what history, taints, budgets and reviews stop."""
