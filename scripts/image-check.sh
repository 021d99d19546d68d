#!/usr/bin/env bash
# Builds the Dockerfile and runs the image, where there may be no container
# engine and no image to pull:
#
#   scripts/image-check.sh
#
# The base images are stand-ins made here. The one to build in is a shell with
# this machine's Go toolchain and module cache; the one to run in is as empty as
# the real one, and has no zone database either. All storage is in a temporary
# directory.
set -euo pipefail
# Files of the image belong to several users: rootless, that takes a namespace.
[[ $EUID -eq 0 ]] || exec buildah unshare "$0" "$@"
cd "$(dirname "$0")/.."

work=$(mktemp -d)
daemon=
cleanup() {
  [[ -z $daemon ]] || { signal KILL; wait "$daemon" || true; }
  rm -rf --one-file-system "$work"
}
trap cleanup EXIT
fail() { echo "image-check: $*" >&2; exit 1; }

# The plainest storage and isolation: neither needs anything of the kernel.
export BUILDAH_ISOLATION=chroot
bh() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }

main() {
  build_image_base
  runtime_image_base
  build
  check_metadata
  run_commands
  run_daemon
  echo "image-check: the image builds, runs as 65532, and a run of it succeeded"
}

build_image_base() {
  local c program lib
  c=$(bh from scratch)
  for program in sh mkdir; do
    program=$(command -v "$program")
    bh copy --quiet "$c" "$(realpath "$program")" "/bin/${program##*/}" >/dev/null
    for lib in $(ldd "$program" | grep -o '/[^ ]*'); do
      bh copy --quiet "$c" "$(realpath "$lib")" "$lib" >/dev/null
    done
  done
  mkdir -m 1777 "$work/tmp"
  bh copy --quiet "$c" "$work/tmp" /tmp >/dev/null
  bh config --env PATH=/usr/local/go/bin:/bin --env GOTOOLCHAIN=local --env HOME=/root "$c"
  bh commit --quiet --rm "$c" build-base >/dev/null
}

runtime_image_base() {
  local c
  c=$(bh from scratch)
  echo 'nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin' >"$work/passwd"
  bh copy --quiet "$c" "$work/passwd" /etc/passwd >/dev/null
  bh copy --quiet "$c" "$work/tmp" /tmp >/dev/null
  bh commit --quiet --rm "$c" runtime-base >/dev/null
}

# build takes modules from this machine's cache as a module proxy would serve
# them, and lends its build cache.
build() {
  go mod download
  mkdir -p "$(go env GOCACHE)"
  bh bud --quiet --format docker --tag tidemark \
    --volume "$(go env GOROOT):/usr/local/go:ro" \
    --volume "$(go env GOMODCACHE)/cache/download:/modules:ro" \
    --volume "$(go env GOCACHE):/root/.cache/go-build" \
    --build-arg BUILD_IMAGE=localhost/build-base \
    --build-arg RUNTIME_IMAGE=localhost/runtime-base \
    --build-arg GOPROXY=file:///modules \
    --build-arg VERSION=image-check . >"$work/build.log" 2>&1 ||
    { cat "$work/build.log" >&2; fail "the Dockerfile does not build"; }
}

check_metadata() {
  local got want
  got=$(bh inspect --type image --format '{{.Docker.Config.User}} {{.Docker.Config.Entrypoint}} {{.Docker.Config.Cmd}} {{.Docker.Config.WorkingDir}} {{.Docker.Config.Volumes}} {{.Docker.Config.StopSignal}} {{.Docker.Config.Healthcheck.Test}}' tidemark)
  want='65532:65532 [/tidemark] [run] /data map[/data:{}] SIGTERM [CMD /tidemark health]'
  [[ $got == "$want" ]] || fail "the image says '$got', want '$want'"
}

# in_image ARGUMENT… runs the program in the container, as its user, with the
# config of this check.
in_image() {
  bh run --volume "$work/tidemark.yaml:/etc/tidemark/tidemark.yaml:ro" \
    --volume "$PWD/deploy/docker:/examples:ro" "$container" -- /tidemark "$@"
}

run_commands() {
  container=$(bh from localhost/tidemark)
  port=$((15000 + RANDOM % 17000))
  cat >"$work/tidemark.yaml" <<YAML
listen: 127.0.0.1:$port
defaults: {misfire_grace_time: 1m, coalesce: latest}
jobs:
  beat:
    schedule: "@every 1s"
    exec: {command: ["/tidemark", "version"]}
YAML
  [[ $(in_image version) == *image-check* ]] || fail "the version is not the one that was built"
  in_image check || fail "check refuses the config"
  bh config --env TIDEMARK_STORE_URL=postgres://db.example.test/tidemark "$container"
  in_image check /examples/tidemark.yaml || fail "check refuses deploy/docker/tidemark.yaml"
  in_image next --schedule '0 3 * * *' --timezone Asia/Seoul >/dev/null || fail "the binary has no zones"
}

# run_daemon lets it run until it has a succeeded run, looks at the files that it
# wrote, and stops it as an engine does.
run_daemon() {
  touch "$work/started"
  in_image run >"$work/daemon.log" 2>&1 &
  daemon=$!
  retry 'the daemon is not healthy' in_image health
  retry 'no run has succeeded' succeeded

  local root written
  root=$(bh mount "$container")
  written=$(find "$root" -xdev -newer "$work/started" -type f -not -path "$root/data/*")
  [[ -z $written ]] || daemon_fail "written outside /data: $written"

  signal TERM
  wait "$daemon" || daemon_fail "SIGTERM ended the daemon with exit code $?"
  daemon=
}

succeeded() { in_image runs --json | grep --quiet '"state": *"succeeded"'; }

# retry MESSAGE COMMAND… tries for half a minute.
retry() {
  local message=$1 deadline=$((SECONDS + 30))
  shift
  until "$@" >"$work/retry.log" 2>&1; do
    kill -0 "$daemon" 2>/dev/null || daemon_fail "the daemon has ended"
    [[ $SECONDS -lt $deadline ]] || { cat "$work/retry.log" >&2; daemon_fail "$message"; }
    sleep 0.2
  done
}

daemon_fail() {
  cat "$work/daemon.log" >&2
  fail "$@"
}

# signal NAME reaches the program below `buildah run`, which a container engine
# would have as its process 1.
signal() {
  local pid=$daemon
  until [[ $(ps -o args= -p "$pid") == "/tidemark run" ]]; do
    pid=$(pgrep --parent "$pid" --oldest) || return 0
  done
  kill -"$1" "$pid"
}

main
