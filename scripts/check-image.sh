#!/usr/bin/env bash
# Builds and tests the container image's content without a container engine: creates bare Debian 13 roots, runs the
# Dockerfile's steps by chroot, then scripts/try_image.py as the image's user. Needs root and debootstrap.
#
#   scripts/check-image.sh                      builds and tests everything
#   KEEP=1 scripts/check-image.sh               keeps the roots; the next run rebuilds only what changed
#   scripts/check-image.sh --tests ['-m slow']  also runs the repository's tests there, on Python 3.13, with pytest arguments
#   scripts/check-image.sh --stack STACK WHEEL  runs scripts/check-stack.sh in such a root instead of an image
#
# REF is the commit to check (default: HEAD), VARIANT is cpu or gpu, WORK the working folder (default: in $TMPDIR), and
# MIRROR the Debian mirror (default: this machine's). This machine's proxies, package index, certificates and apt
# settings are used, and not stored.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VARIANT="${VARIANT:-cpu}"
REF="${REF:-HEAD}"
WORK="${WORK:-${TMPDIR:-/tmp}/generic-trainer-image}"
STEPS=scripts/install-image.sh
ENVIRONMENT=/opt/generic-trainer
SOURCES=/src
HOME_IN_IMAGE=/home/trainer

die() {
    echo "error: $*" >&2
    exit 1
}

report() { printf '== %s\n' "$*"; }

# ---- Outside of the namespaces: checks requirements, and cleans up mounts, processes and, without KEEP, files.

outside() {
    local missing=() command
    ((EUID == 0)) || die "creating roots and entering them by chroot needs root: sudo $0"
    for command in debootstrap unshare git; do
        command -v "$command" >/dev/null || missing+=("$command")
    done
    ((${#missing[@]} == 0)) || die "not installed: ${missing[*]}. Run apt-get install debootstrap util-linux git"
    git rev-parse --quiet --verify "$REF^{commit}" >/dev/null || die "REF: '$REF' is not a commit"
    mkdir -p "$WORK"
    WORK="$(cd "$WORK" && pwd)"
    trap 'kill -KILL "$inside" 2>/dev/null && wait "$inside" || true; [[ -n "${KEEP:-}" ]] || rm -rf --one-file-system "$WORK"' EXIT
    # Mounts and processes are in separate namespaces, and end with them.
    WORK="$WORK" unshare --mount --pid --fork --kill-child --mount-proc "$0" --inside "$@" &
    inside=$!
    wait "$inside"
}

# ---- The machine's settings.

mirror_of_this_machine() {
    [[ "$(. /etc/os-release && echo "$ID")" == debian ]] || die "this machine is not Debian: set MIRROR to the URL of a Debian mirror"
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | head -n 1
}

certificates() {
    local file
    for file in "${SSL_CERT_FILE:-}" "${PIP_CERT:-}" "${REQUESTS_CA_BUNDLE:-}" /etc/ssl/certs/ca-certificates.crt; do
        [[ ! -f "$file" ]] || { echo "$file" && return; }
    done
}

# Variables for commands that install: proxies, and pip's index and trusted hosts from its configuration.
network() {
    local name value
    for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY PIP_DEFAULT_TIMEOUT UV_DEFAULT_INDEX UV_INDEX_URL; do
        [[ -z "${!name:-}" ]] || echo "$name=${!name}"
    done
    for name in index-url extra-index-url trusted-host; do
        value="PIP_$(tr a-z- A-Z_ <<<"$name")"
        value="${!value:-$(python3 -m pip config get "global.$name" 2>/dev/null || true)}"
        [[ -z "$value" || "$value" == *file:* ]] || echo "PIP_$(tr a-z- A-Z_ <<<"$name")=$value"
    done
    for name in SSL_CERT_FILE PIP_CERT REQUESTS_CA_BUNDLE; do
        echo "$name=/run/secrets/certificates"
    done
}

# ---- Roots.

# bind FILE ROOT PATH: bind-mounts a file of this machine in a root.
bind_file() {
    [[ -f "$1" ]] || return 0
    mountpoint -q "$2$3" || { mkdir -p "$(dirname "$2$3")" && touch -a "$2$3" && mount --bind -o ro "$1" "$2$3"; }
}

# Mounts what a container engine mounts.
mount_root() {
    local root="$WORK/$1"
    mountpoint -q "$root/proc" && return
    mount -t proc proc "$root/proc"
    mount -t tmpfs tmpfs "$root/dev/shm"
    mount -t devpts devpts "$root/dev/pts" -o newinstance,ptmxmode=0666
    bind_file /etc/resolv.conf "$root" /etc/resolv.conf
    bind_file /etc/hosts "$root" /etc/hosts
}

# run_in ROOT COMMAND …: runs a command as root, with this machine's settings.
run_in() {
    local root="$1"
    shift
    mount_root "$root"
    mkdir -p "$WORK/cache" "$WORK/$root/root/.cache"
    mountpoint -q "$WORK/$root/root/.cache" || mount --bind "$WORK/cache" "$WORK/$root/root/.cache"
    bind_file "$(certificates)" "$WORK/$root" /run/secrets/certificates
    bind_file "$WORK/apt.conf" "$WORK/$root" /etc/apt/apt.conf.d/99-of-the-host
    chroot "$WORK/$root" /usr/bin/env -i --chdir="$([[ -d "$WORK/$root$SOURCES" ]] && echo "$SOURCES" || echo /)" \
        HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${NETWORK[@]}" "$@"
}

# The environment variables and the command of the Dockerfile.
image_environment() { git show "$REF:Dockerfile" | sed -nE 's/^ENV (.*)/\1/p'; }
image_command() { git show "$REF:Dockerfile" | sed -nE 's/^CMD \[(.*)\]/\1/p' | tr -d '",'; }

# run_as_user COMMAND …: runs a command as a container does.
run_as_user() {
    mount_root image
    chroot --userspec=1000:1000 --groups='' "$WORK/image" /usr/bin/env -i --chdir="$HOME_IN_IMAGE" \
        HOME="$HOME_IN_IMAGE" "${IMAGE_ENVIRONMENT[@]}" "$@"
}

# layer ROOT KEY FUNCTION: builds a root, unless KEEP=1 kept one with the same key.
layer() {
    local root="$WORK/$1" start=$SECONDS
    [[ -f "$root.made" && "$(<"$root.made")" == "$2" ]] && { report "$1: reused" && return; }
    rm -rf --one-file-system "$root" "$root.made"
    "$3"
    echo "$2" >"$root.made"
    report "$1: $((SECONDS - start)) s"
}

contents() { local path; for path in "$@"; do git rev-parse "$REF:$path"; done | paste -sd ' '; }
copy() { cp -ax --reflink=auto "$@"; }

make_base() {
    mkdir -p "$WORK/debs"
    debootstrap --variant=minbase --cache-dir="$WORK/debs" trixie "$WORK/base" "$MIRROR" >"$WORK/debootstrap.log" 2>&1 ||
        { tail -n 20 "$WORK/debootstrap.log" >&2 && die "debootstrap failed"; }
    rm -rf "$WORK"/base/var/cache/apt/archives/* "$WORK"/base/var/lib/apt/lists/*
}

# Exports the files that .dockerignore includes in the build context.
sources() {
    local paths
    readarray -t paths < <(git show "$REF:.dockerignore" | sed -nE 's/^!(.*)/:(glob)\1/p')
    mkdir -p "$1"
    git archive "$REF" -- "${paths[@]}" | tar -x -C "$1"
}

make_build() {
    copy "$WORK/base" "$WORK/build"
    sources "$WORK/build$SOURCES"
    run_in build "$STEPS" compiler
    run_in build "$STEPS" dependencies "$VARIANT"
}

make_image() {
    rm -rf --one-file-system "$WORK/build$SOURCES" "$WORK/image"
    sources "$WORK/build$SOURCES"
    run_in build "$STEPS" project
    copy "$WORK/base" "$WORK/image"
    sources "$WORK/image$SOURCES"
    run_in image "$STEPS" runtime
    copy "$WORK/build$ENVIRONMENT" "$WORK/image$ENVIRONMENT"
    rm -rf --one-file-system "$WORK/image$SOURCES"
}

# ---- Tests of the image.

megabytes() { du -sxm "$1" | cut -f1; }

check_entry_points() {
    report "as the image's user:"
    local command
    read -ra command < <(image_command)
    [[ "$(run_as_user "${command[@]}")" == "Usage: generic-trainer"* ]] || die "${command[*]} does not print its help"
    run_as_user bash -lc 'generic-trainer --version && ray --version' | sed 's/^/   /'
    run_as_user mkdir -p "$HOME_IN_IMAGE/tried"
    git show "$REF:scripts/try_image.py" >"$WORK/image/tmp/try_image.py"
    run_as_user python /tmp/try_image.py "$HOME_IN_IMAGE/tried"
}

# Kubernetes and Vertex AI stop a container by SIGTERM to its first process, for which the kernel ignores signals without
# a handler.
check_sigterm() {
    local first log="$WORK/sigterm.log" tried="$HOME_IN_IMAGE/tried" code=0 outer
    mount_root image
    unshare --pid --fork --kill-child chroot --userspec=1000:1000 --groups='' "$WORK/image" /usr/bin/env -i \
        --chdir="$tried" HOME="$HOME_IN_IMAGE" "${IMAGE_ENVIRONMENT[@]}" generic-trainer train \
        generic_trainer.module_files.iris_keras --train-files "$tried/iris/Split-train/*" \
        --eval-files "$tried/iris/Split-eval/*" --train-steps 100000000 --output endless >"$log" 2>&1 &
    outer=$!
    for _ in {1..60}; do
        ! grep -q 'Dialect' "$log" || break
        sleep 1
    done
    read -r first <"/proc/$outer/task/$outer/children" || [[ -n "$first" ]]
    kill -TERM "$first"
    wait "$outer" || code=$?
    ((code == 143)) || { cat "$log" && die "the first process exited with code $code after SIGTERM, not with 143"; }
    echo "   SIGTERM to the container's first process"
}

# ---- The repository's tests, in the development environment of Python 3.13.

make_tests() {
    copy "$WORK/base" "$WORK/tests"
    sources "$WORK/tests$SOURCES"
    run_in tests "$STEPS" runtime
    run_in tests sh -c 'apt-get update -qq && apt-get install -qq --yes --no-install-recommends make g++ patch python3-dev python3-venv >/dev/null'
}

run_tests() {
    local start=$SECONDS
    find "$WORK/tests$SOURCES" -mindepth 1 -maxdepth 1 ! -name '.venv*' ! -name .uv -exec rm -rf {} +
    git archive "$REF" | tar -x -C "$WORK/tests$SOURCES"
    chroot "$WORK/tests" chown -R 1000:1000 "$SOURCES"
    mount_root tests
    bind_file "$(certificates)" "$WORK/tests" /run/secrets/certificates
    mkdir -p "$WORK/tests$HOME_IN_IMAGE/.cache"
    chown 1000:1000 "$WORK/tests$HOME_IN_IMAGE/.cache"
    local user=(chroot --userspec=1000:1000 --groups='' "$WORK/tests" /usr/bin/env -i --chdir="$SOURCES" HOME="$HOME_IN_IMAGE"
        LC_ALL=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin "${NETWORK[@]}" LANE=py313)
    "${user[@]}" scripts/bootstrap.sh
    report "development environment: $((SECONDS - start)) s, $(megabytes "$WORK/tests$SOURCES/.venv") MB"
    "${user[@]}" make test PYTEST_ARGS="$1"
}

# ---- A wheel with one of the supported stacks.

make_stack() {
    copy "$WORK/base" "$WORK/stack"
    sources "$WORK/stack$SOURCES"
    run_in stack "$STEPS" compiler
}

try_stack() {
    rm -rf --one-file-system "$WORK/stack$SOURCES"
    mkdir -p "$WORK/stack$SOURCES/dist"
    git archive "$REF" scripts requirements | tar -x -C "$WORK/stack$SOURCES"
    cp "$2" "$WORK/stack$SOURCES/dist/"
    run_in stack env KEEP="${KEEP:-}" scripts/check-stack.sh "$1"
}

inside() {
    local start=$SECONDS
    MIRROR="${MIRROR:-$(mirror_of_this_machine)}"
    readarray -t NETWORK < <(network)
    readarray -t IMAGE_ENVIRONMENT < <(image_environment)
    apt-config dump 2>/dev/null | grep -E '^Acquire::(http|https|Check)' >"$WORK/apt.conf" || true

    layer base "trixie $MIRROR" make_base
    if [[ "${1:-}" == --stack ]]; then
        layer stack "$(<"$WORK/base.made") $(contents "$STEPS")" make_stack
        try_stack "$2" "$3"
        return
    fi
    layer build "$(<"$WORK/base.made") $VARIANT $(contents "$STEPS" requirements/image.txt requirements/image-cuda.txt requirements/image-slim.txt)" make_build
    make_image
    report "image ($VARIANT): $(megabytes "$WORK/image") MB, of which $(megabytes "$WORK/image$ENVIRONMENT") MB are $ENVIRONMENT; $((SECONDS - start)) s"
    check_entry_points
    check_sigterm
    report "image: total $((SECONDS - start)) s"
    if [[ "${1:-}" == --tests ]]; then
        layer tests "$(<"$WORK/base.made") $(contents "$STEPS")" make_tests
        run_tests "${2:-}"
    fi
}

case "${1:-}" in
    --inside) shift && inside "$@" ;;
    "" | --tests | --stack) outside "$@" ;;
    *) die "usage: $0 [--tests [PYTEST ARGUMENTS] | --stack STACK WHEEL]" ;;
esac
