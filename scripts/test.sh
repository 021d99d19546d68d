#!/usr/bin/env bash
# Runs `go test` with one PostgreSQL server for all packages.
#
#   scripts/test.sh [-disk] [GO TEST ARGUMENT…]     (default: ./...)
#
# The server keeps its files in memory where there is room; -disk keeps them on
# a disk, for what is measured. TIDEMARK_TEST_POSTGRES names another server.
set -euo pipefail
cd "$(dirname "$0")/.."

memory=(-memory)
if [[ ${1:-} == -disk ]]; then
  memory=()
  shift
fi
[[ $# -gt 0 ]] || set -- ./...

if [[ -n ${TIDEMARK_TEST_POSTGRES:-} ]]; then
  exec go test "$@"
fi
scripts/deps.sh test
go build -o .bin/pgrun ./internal/pgtest/pgrun
exec .bin/pgrun "${memory[@]}" go test "$@"
