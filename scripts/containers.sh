#!/usr/bin/env bash
# Builds and tests the container image with podman, on a Debian machine without a container registry, as root.
#
#   scripts/containers.sh image               builds the Dockerfile as $IMAGE on a base made by debootstrap
#   scripts/containers.sh test [ARGUMENTS]    builds it, and runs tests/containers with pytest's arguments
#   scripts/containers.sh run COMMAND …       runs a command with this engine: scripts/containers.sh run podman images
#   scripts/containers.sh sizes               prints the size of each layer of $IMAGE
#   scripts/containers.sh clean               removes all images and containers
#
# Images and containers are kept in $WORK (default: in $TMPDIR), apart from the machine's own. Containers share the
# machine's network unless they are started with another, and their cgroups have limits. VARIANT is cpu, gpu or slim.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export IMAGE="${IMAGE:-localhost/generic-trainer:test}" VARIANT="${VARIANT:-cpu}"
WORK="${WORK:-${TMPDIR:-/tmp}/generic-trainer-containers}"
BASE=library/debian:trixie-slim
MISSING="Run apt-get install podman runc debootstrap"

die() {
    echo "error: $*" >&2
    exit 1
}

configure() {
    ((EUID == 0)) || die "containers with limits and debootstrap need root: sudo $0"
    local command
    for command in podman runc debootstrap; do
        command -v "$command" >/dev/null || die "not installed: $command. $MISSING"
    done
    mkdir -p "$WORK"
    cat >"$WORK/containers.conf" <<CONF
[containers]
cgroups = "enabled"
netns = "host"
ipcns = "private"
utsns = "host"
pidns = "private"
default_ulimits = ["nofile=$(ulimit -Hn):$(ulimit -Hn)", "nproc=4096:4096"]  # podman's defaults can exceed the machine's
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
CONF
    cat >"$WORK/storage.conf" <<CONF
[storage]
driver = "overlay"
graphroot = "$WORK/storage"
runroot = "$WORK/run"
CONF
    export CONTAINERS_CONF="$WORK/containers.conf" CONTAINERS_STORAGE_CONF="$WORK/storage.conf"
}

# Imports Debian 13 as the base image that the Dockerfile names.
base() {
    ! podman image exists "$BASE" || return 0
    local mirror="${MIRROR:-}" root="$WORK/base"
    [[ -n "$mirror" ]] || mirror="$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1)"
    rm -rf --one-file-system "$root"
    debootstrap --variant=minbase trixie "$root" "$mirror" >"$WORK/debootstrap.log" || die "see $WORK/debootstrap.log"
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    tar -C "$root" -c . | podman import --quiet --change 'CMD ["bash"]' - "$BASE" >/dev/null
    rm -rf --one-file-system "$root"
}

image() {
    base
    scripts/build-image.sh --layers "$@"
}

sizes() {
    podman history --no-trunc --format '{{.Size}} {{.CreatedBy}}' "$IMAGE" | sed -nE 's/^([0-9.]+ [MG]B) (.{0,90}).*/\1  \2/p'
    podman image inspect --format '{{.Size}}' "$IMAGE" | awk '{ printf "%d MB in all\n", $1 / 1000000 }'
}

configure
case "${1:-}" in
    image) shift && image "$@" ;;
    test)
        shift
        image
        # Without names of tests, all of them.
        [[ "$*" == *tests/containers* ]] || set -- "$@" tests/containers
        TEST_IMAGE="$IMAGE" "${VENV:-.venv}/bin/python" -m pytest "$@"
        ;;
    run) shift && "$@" ;;
    sizes) sizes ;;
    clean) podman system reset --force >/dev/null && rm -rf --one-file-system "$WORK" ;;
    *) die "usage: $0 image | test [PYTEST ARGUMENTS] | run COMMAND … | sizes | clean" ;;
esac
