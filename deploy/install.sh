#!/bin/sh
# Installs from a checkout that is set up: `make install` calls it. The environment is built from the runtime lock
# beside the one in place and then exchanged, so that a failure leaves the old installation working.
set -eu

cd "$(dirname -- "$0")/.."
. deploy/layout.sh
umask 022
setup=${OPENSAFE_PREFIX:-/opt/opensafe}
uv=build/uv/bin/uv
export UV_NO_CONFIG=1 UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy

say() { echo "install: $*"; }

say "building the package"
rm -rf build/wheel build/lib build/bdist.*
mkdir -p build/wheel
.venv/bin/python -c 'import setuptools.build_meta as b; b.build_wheel("build/wheel")' >build/wheel/log 2>&1 || {
    tail -n 15 build/wheel/log >&2
    say "the package can't be built: see above" >&2
    exit 1
}
wheel=$(echo build/wheel/opensafe-*.whl)

say "environment in $target/venv"
mkdir -p "$target/bin" "$target/share/doc"
rm -rf "$target/venv.new"
"$uv" venv --quiet --relocatable --python "$(readlink -f .venv/bin/python)" "$target/venv.new"
"$uv" pip sync --quiet --python "$target/venv.new" --require-hashes --compile-bytecode requirements.lock
"$uv" pip install --quiet --python "$target/venv.new" --offline --no-deps --compile-bytecode "$wheel"
rm -rf "$target/venv.old"
[ ! -e "$target/venv" ] || mv "$target/venv" "$target/venv.old"
rm -f "$target/venv.new/.lock" # uv leaves it writable by all
mv "$target/venv.new" "$target/venv"
rm -rf "$target/venv.old"
ln -sfn ../venv/bin/opensafe "$target/bin/opensafe"

say "programs, image and bundle in $target"
if [ "$target" != "$setup" ]; then
    install -m 0755 "$setup/bin/opa" "$setup/bin/runsc" "$target/bin/"
    mkdir -p "$target/images"
    rm -rf "$target/images/.base.new" # other images there are the operator's, other images here the tests'
    cp -a "$setup/images/base" "$target/images/.base.new"
    rm -rf "$target/images/base"
    mv "$target/images/.base.new" "$target/images/base"
fi
install -D -m 0755 build/native/launch "$target/libexec/launch"
for program in init run file probe; do
    install -D -m 0755 "build/native/guest/$program" "$target/libexec/guest/$program"
done
install -D -m 0755 build/native/proof/sweep "$target/libexec/proof/sweep"
install -d -m 0755 "$target/libexec/guest/trust"
# The key first: a daemon that runs takes the bundle as soon as it is in place, by a rename.
install -m 0644 build/keys/policy.pub "$target/share/policy.pub"
install -m 0644 build/policy.bundle.tar.gz "$target/share/.policy.bundle.new"
mv "$target/share/.policy.bundle.new" "$target/share/policy.bundle.tar.gz"
install -m 0644 docs/install.md docs/runbooks.md docs/redteam.md docs/console.md "$target/share/doc/"
rm -rf "$target/share/policies" # rules and data of `opensafe redteam run`; the daemon reads the bundle
cp -r policies "$target/share/policies"
chmod -R u=rwX,go=rX "$target/share/policies"
rm -rf "$target/share/demo" # the files of the agent of `opensafe console --demo`
cp -r deploy/demo "$target/share/demo"
chmod -R u=rwX,go=rX "$target/share/demo"
install -D -m 0644 deploy/grafana/opensafe.json "$target/share/grafana/opensafe.json"
mkdir -p "$target/share/prometheus"
sed "s#/opt/opensafe#$PREFIX#g" deploy/prometheus/opensafe.rules.yml >"$target/share/prometheus/opensafe.rules.yml"

say "unit $unit, account $sysusers"
mkdir -p "$(dirname "$unit")" "$(dirname "$sysusers")" "$(dirname "$config")"
for name in opensafe.service opensafe-console.service opensafe-redteam.service opensafe-redteam.timer; do
    sed "s#/opt/opensafe#$PREFIX#g" "deploy/systemd/$name" >"$(dirname "$unit")/$name"
done
install -m 0644 deploy/systemd/opensafe.sysusers.conf "$sysusers"

if [ -e "$config" ]; then
    say "$config is left as it is; the example goes beside it"
    config=$config.example
fi
if [ "$PREFIX" = /opt/opensafe ]; then
    install -m 0640 deploy/opensafe.toml "$config"
else
    # Another prefix is not the daemon's default, so the paths below it are spelled out.
    sed "s,^# \(.*\"\)/opt/opensafe,\1$PREFIX," deploy/opensafe.toml >"$config"
    chmod 0640 "$config"
fi

rm -rf build/lib build/bdist.* supervisor/opensafe.egg-info
say "done; start it with: systemctl daemon-reload && systemctl enable --now opensafe"
