#!/usr/bin/env bash
# Installs what tests and checks need, and only what is missing.
#
#   scripts/deps.sh [test|lint|deploy|all]
#
# System packages come from Debian or a relative of it (elsewhere the script says
# what to install), tools in Go are built into .bin at the versions below.
set -euo pipefail
cd "$(dirname "$0")/.."

golangci_lint=github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

main() {
  case "${1:-all}" in
    test) test_deps ;;
    lint) lint_deps ;;
    deploy) deploy_deps ;;
    all) test_deps; lint_deps; deploy_deps ;;
    *) echo "usage: scripts/deps.sh [test|lint|deploy|all]" >&2; exit 2 ;;
  esac
}

test_deps() {
  if ! compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null && ! command -v pg_ctl >/dev/null; then
    install_packages postgresql
  fi
}

lint_deps() {
  command -v shellcheck >/dev/null || install_packages shellcheck
  go_tool "$golangci_lint"
}

deploy_deps() {
  local packages=()
  command -v buildah >/dev/null || packages+=(buildah)
  command -v systemd-analyze >/dev/null || packages+=(systemd)
  command -v pgrep >/dev/null || packages+=(procps)
  install_packages "${packages[@]}"
  [[ -x .bin/promtool ]] || promtool
}

# install_packages NAME… asks for nothing and starts no other front end.
install_packages() {
  [[ $# -gt 0 ]] || return 0
  apt_update
  echo "deps: install $*" >&2
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet \
    --no-install-recommends -o DPkg::Lock::Timeout=300 "$@" >&2
}

apt_update() {
  if ! command -v apt-get >/dev/null; then
    echo "deps: no apt-get here; install a PostgreSQL server, shellcheck, buildah, systemd" \
      "and prometheus (for promtool) as this system does it" >&2
    exit 1
  fi
  as_root apt-get update --quiet -o DPkg::Lock::Timeout=300 >&2
}

as_root() {
  if [[ $EUID -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

# promtool comes in the package of the server, which is unpacked rather than
# installed: nobody wants that server started.
promtool() {
  local dir
  dir=$(mktemp -d)
  # apt's own user downloads.
  chmod 777 "$dir"
  apt_update
  echo "deps: unpack promtool" >&2
  (cd "$dir" && apt-get download --quiet prometheus >&2 && dpkg-deb --extract ./*.deb .)
  mkdir -p .bin
  install -m 755 "$dir/usr/bin/promtool" .bin/promtool
  rm -rf "$dir"
}

# go_tool PACKAGE@VERSION builds a tool unless that version stands in .bin.
go_tool() {
  local package=${1%@*} version=${1#*@}
  local binary=.bin/${package##*/}
  if [[ -x $binary ]] && go version -m "$binary" | grep --quiet --word-regexp --fixed-strings "$version"; then
    return
  fi
  echo "deps: build ${package##*/} $version (minutes, the first time)" >&2
  GOBIN=$PWD/.bin go install "$1" >&2
}

main "$@"
