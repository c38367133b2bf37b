#!/bin/sh
# Removes what install.sh and the set-up put under the prefix, and the unit. Configuration, state (the records!) and
# the account stay: they are the operator's.
set -eu

cd "$(dirname -- "$0")/.."
. deploy/layout.sh

if [ -z "$DESTDIR" ] && [ -d /run/systemd/system ]; then
    systemctl disable --now opensafe-redteam.timer opensafe.service 2>/dev/null || true
fi
rm -f "$unit" "$sysusers" "$config.example"
rm -f "$(dirname "$unit")/opensafe-redteam.service" "$(dirname "$unit")/opensafe-redteam.timer"
for name in venv venv.new venv.old images libexec share; do
    rm -rf "${target:?}/$name"
done
rm -f "$target/bin/opensafe" "$target/bin/opa" "$target/bin/runsc"
rmdir "$target/bin" "$target" 2>/dev/null || true

echo "uninstall: removed $target and $unit"
echo "uninstall: kept $config, /var/lib/opensafe and the user opensafe"
