#!/bin/sh
# Removes what install.sh and the set-up put under the prefix, and the units. Configuration, state (the records!), the red
# team's reports and the account stay: they are the operator's.
set -eu

cd "$(dirname -- "$0")/.."
. deploy/layout.sh

if [ -z "$DESTDIR" ] && [ -d /run/systemd/system ]; then
    # Each by itself: one that is not there would keep the others from being stopped. The timer first.
    for name in opensafe-redteam.timer opensafe-redteam.service opensafe-console.service opensafe.service; do
        systemctl disable --now "$name" 2>/dev/null || true
    done
fi
rm -f "$unit" "$sysusers" "$config.example"
for name in opensafe-console.service opensafe-redteam.service opensafe-redteam.timer; do
    rm -f "$(dirname "$unit")/$name"
done
for name in venv venv.new venv.old images libexec share; do
    rm -rf "${target:?}/$name"
done
rm -f "$target/bin/opensafe" "$target/bin/opa" "$target/bin/runsc"
rmdir "$target/bin" "$target" 2>/dev/null || true

echo "uninstall: removed $target and the units in $(dirname "$unit")"
echo "uninstall: kept $config, /var/lib/opensafe, /var/lib/opensafe-redteam, /var/lib/opensafe-console and the users"
