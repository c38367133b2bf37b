"""What the sentry reports of a sandbox, read and judged; runs in the helper (docs/monitor.md)."""
