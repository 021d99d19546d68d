#!/usr/bin/env bash
# Checks the systemd units, also where systemd does not run:
#
#   scripts/systemd-check.sh TIDEMARK
#
# TIDEMARK is a built binary: a unit whose program is missing is not valid. Not
# one word of `systemd-analyze verify` is accepted, because unknown settings are
# only warnings to it.
set -euo pipefail
binary=$(realpath "${1:?usage: scripts/systemd-check.sh TIDEMARK}")
cd "$(dirname "$0")/../deploy/systemd"

max_exposure=2.5   # of `systemd-analyze security`, for the unit as it is shipped

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "systemd-check: $*" >&2; failed=1; }

# place NAME [DROP-IN] lays out a unit that starts the given binary.
place() {
  local dir=$work/$1
  mkdir -p "$dir/tidemark.service.d"
  sed "s|/usr/bin/tidemark|$binary|" tidemark.service >"$dir/tidemark.service"
  grep --quiet "^ExecStart=$binary " "$dir/tidemark.service" || fail "ExecStart is not /usr/bin/tidemark"
  [[ $# -lt 2 ]] || cp "$2" "$dir/tidemark.service.d/"
}

# complaints NAME prints what is wrong with a unit.
complaints() { systemd-analyze verify --man=no "$work/$1/tidemark.service" 2>&1 || true; }

# exposure NAME prints a number from 0 (best) to 10.
exposure() {
  systemd-analyze security --offline=true --no-pager "$work/$1/tidemark.service" |
    sed -n 's/^→ Overall exposure level for .*: \([0-9.]*\) .*/\1/p'
}

# seconds KEY prints a duration of the unit as it is shipped.
seconds() { sed -n "s/^$1=\([0-9]*\)$/\1/p" tidemark.service; }

place unit
out=$(complaints unit)
[[ -z $out ]] || fail "tidemark.service: $out"
got=$(exposure unit)
awk -v got="$got" -v max="$max_exposure" 'BEGIN {exit !(got != "" && got <= max)}' ||
  fail "exposure is '$got', above $max_exposure"
echo "systemd-check: tidemark.service is valid, exposure $got (at most $max_exposure)"

place user-switching user-switching.conf
out=$(complaints user-switching)
[[ -z $out ]] || fail "user-switching.conf: $out"
echo "systemd-check: user-switching.conf is valid, exposure $(exposure user-switching)"

# An older systemd has one complaint about the one new thing, and no other.
place notify-reload notify-reload.conf
out=$(complaints notify-reload)
version=$(systemd-analyze --version | sed -n '1s/^systemd \([0-9]*\).*/\1/p')
if [[ $version -lt 253 ]]; then
  [[ $(wc -l <<<"$out") -eq 1 && $out == *notify-reload.conf* && $out == *"notify-reload"* ]] ||
    fail "notify-reload.conf, beyond what systemd $version does not know: $out"
else
  [[ -z $out ]] || fail "notify-reload.conf: $out"
fi
echo "systemd-check: notify-reload.conf is valid (systemd $version)"

# The default shutdown_grace is 30s.
[[ $(seconds TimeoutStopSec) -gt 30 ]] || fail "TimeoutStopSec is not above shutdown_grace"

mkdir "$work/etc"
out=$(systemd-sysusers --root="$work" "$PWD/sysusers.conf" 2>&1) || fail "sysusers.conf: $out"
grep --quiet '^tidemark:' "$work/etc/passwd" || fail "sysusers.conf makes no user tidemark"
exit "$failed"
