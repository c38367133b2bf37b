"""The way out of a sandbox: who asks, what is judged, and what became of it; runs in the helper (docs/egress.md)."""
