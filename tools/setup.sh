#!/bin/sh
# Finds or installs a Python, then hands over to tools/provision. POSIX sh and nothing else, because on a fresh
# machine nothing else is certain to exist.
#
# /usr/bin/python3.11 is preferred: an interpreter below /root cannot be executed by the service user.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)

find_python() {
    for candidate in /usr/bin/python3.11 "$(command -v python3.11 || true)"; do
        [ -x "$candidate" ] && "$candidate" -c 'import tomllib' 2>/dev/null && { echo "$candidate"; return; }
    done
    return 1
}

if ! python=$(find_python); then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "setup: Python 3.11 is missing and can't be installed from here." >&2
        echo "setup: install it (Debian 12: apt-get install python3.11) and run the same command again." >&2
        exit 1
    fi
    echo "setup: installing Python 3.11 with apt"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -o DPkg::Lock::Timeout=300 update -qq </dev/null
    apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends python3.11 </dev/null
    python=$(find_python)
fi

case $python in
    /root/*) echo "setup: warning: $python is below /root; the service user may be unable to execute it" >&2 ;;
esac

PYTHONPATH=$here exec "$python" -B -m provision "$@"
