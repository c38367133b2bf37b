"""What the front knows between calls: an index over the audit log, folded from its records."""
