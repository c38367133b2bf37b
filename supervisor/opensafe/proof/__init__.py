"""Claims about the product held against the product itself. Run by hand or in CI, never by the daemon."""
