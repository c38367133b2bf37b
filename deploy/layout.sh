# Where an installation puts things; read by install.sh and uninstall.sh, which `make` calls from the checkout.
#
#   PREFIX     programs, image and bundle (default: where the set-up put opa, runsc and the image)
#   DESTDIR    put before every path, for building packages
#   SYSCONFDIR, UNITDIR, SYSUSERSDIR   as their names say
# shellcheck shell=sh disable=SC2034 - the names are used by those who read this

PREFIX=${PREFIX:-${OPENSAFE_PREFIX:-/opt/opensafe}}
DESTDIR=${DESTDIR:-}
SYSCONFDIR=${SYSCONFDIR:-/etc}
UNITDIR=${UNITDIR:-/usr/local/lib/systemd/system}
SYSUSERSDIR=${SYSUSERSDIR:-/usr/local/lib/sysusers.d}

case $PREFIX in
    /*[!/]) ;;
    *) echo "install: PREFIX is ${PREFIX:-empty}; it has to be an absolute directory other than /" >&2; exit 2 ;;
esac

target=$DESTDIR$PREFIX
config=$DESTDIR$SYSCONFDIR/opensafe/opensafe.toml
unit=$DESTDIR$UNITDIR/opensafe.service
sysusers=$DESTDIR$SYSUSERSDIR/opensafe.conf
