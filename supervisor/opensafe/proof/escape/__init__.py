"""Attempts to get out of a sandbox, each judged by what the host saw, and each beside a control that does get out."""
