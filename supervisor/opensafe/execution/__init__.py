"""One call's run: its streams, its deadline, its end."""
