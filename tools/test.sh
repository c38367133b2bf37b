#!/bin/sh
# Runs the tests and closes with one line that says how it went, also where the output scrolled away.
set -u

if .venv/bin/python -m pytest "$@" </dev/null; then
    echo "opensafe: all tests passed"
else
    status=$?
    echo "opensafe: TESTS FAILED (pytest exited with $status)" >&2
    exit "$status"
fi
