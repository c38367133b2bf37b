"""The escape campaign: thousands of sequences against sandboxes and a daemon, under oracles on the host."""
