#!/usr/bin/env bash
# Makes what is in the container image without a container engine, and tries it: bare Debian 13 roots, the Dockerfile's
# steps by chroot, then scripts/try_image.py as the image's user. As root; debootstrap has to be installed.
#
#   scripts/check-image.sh                      all of it
#   KEEP=1 scripts/check-image.sh               and the roots stay, so that the next run makes only what has changed
#   scripts/check-image.sh --tests ['-m slow']  the repository's tests there, on Python 3.13; arguments are pytest's
#   scripts/check-image.sh --stack STACK WHEEL  no image, but scripts/check-stack.sh in such a root
#
# REF=HEAD is what is checked, VARIANT=cpu or gpu; WORK is where (default: a folder of $TMPDIR), MIRROR Debian's mirror
# (default: this machine's). This machine's proxies, package index, certificates and settings of apt are used, and
# nothing of them is written down.
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

say() { printf '== %s\n' "$*"; }

# ---- Outside: what is needed, and an end with which nothing stays mounted, running or, without KEEP, on disk.

outside() {
    local missing=() command
    ((EUID == 0)) || die "this makes roots and enters them by chroot, which takes root: sudo $0"
    for command in debootstrap unshare git; do
        command -v "$command" >/dev/null || missing+=("$command")
    done
    ((${#missing[@]} == 0)) || die "not on this machine: ${missing[*]}. apt-get install debootstrap util-linux git"
    git rev-parse --quiet --verify "$REF^{commit}" >/dev/null || die "REF: git knows no commit '$REF'"
    mkdir -p "$WORK"
    WORK="$(cd "$WORK" && pwd)"
    trap 'kill -KILL "$inside" 2>/dev/null && wait "$inside" || true; [[ -n "${KEEP:-}" ]] || rm -rf --one-file-system "$WORK"' EXIT
    # Mounts and processes are those of namespaces of its own, and go with them.
    WORK="$WORK" unshare --mount --pid --fork --kill-child --mount-proc "$0" --inside "$@" &
    inside=$!
    wait "$inside"
}

# ---- The machine's settings.

mirror_of_this_machine() {
    [[ "$(. /etc/os-release && echo "$ID")" == debian ]] || die "this machine is no Debian: say MIRROR=address of a Debian mirror"
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

# bound FILE ROOT PATH: the machine's file, seen in a root.
bound() {
    [[ -f "$1" ]] || return 0
    mountpoint -q "$2$3" || { mkdir -p "$(dirname "$2$3")" && touch -a "$2$3" && mount --bind -o ro "$1" "$2$3"; }
}

# As a container engine does it.
mounted() {
    local root="$WORK/$1"
    mountpoint -q "$root/proc" && return
    mount -t proc proc "$root/proc"
    mount -t tmpfs tmpfs "$root/dev/shm"
    mount -t devpts devpts "$root/dev/pts" -o newinstance,ptmxmode=0666
    bound /etc/resolv.conf "$root" /etc/resolv.conf
    bound /etc/hosts "$root" /etc/hosts
}

# installs ROOT COMMAND …: as root, and with this machine's settings.
installs() {
    local root="$1"
    shift
    mounted "$root"
    mkdir -p "$WORK/cache" "$WORK/$root/root/.cache"
    mountpoint -q "$WORK/$root/root/.cache" || mount --bind "$WORK/cache" "$WORK/$root/root/.cache"
    bound "$(certificates)" "$WORK/$root" /run/secrets/certificates
    bound "$WORK/apt.conf" "$WORK/$root" /etc/apt/apt.conf.d/99-of-the-host
    chroot "$WORK/$root" /usr/bin/env -i --chdir="$([[ -d "$WORK/$root$SOURCES" ]] && echo "$SOURCES" || echo /)" \
        HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${NETWORK[@]}" "$@"
}

# The variables that the Dockerfile sets, and its command.
image_environment() { git show "$REF:Dockerfile" | sed -nE 's/^ENV (.*)/\1/p'; }
image_command() { git show "$REF:Dockerfile" | sed -nE 's/^CMD \[(.*)\]/\1/p' | tr -d '",'; }

# uses COMMAND …: as a container runs it.
uses() {
    mounted image
    chroot --userspec=1000:1000 --groups='' "$WORK/image" /usr/bin/env -i --chdir="$HOME_IN_IMAGE" \
        HOME="$HOME_IN_IMAGE" "${IMAGE_ENVIRONMENT[@]}" "$@"
}

# layer ROOT KEY FUNCTION: makes a root, unless it stands there since KEEP=1, made of the same things.
layer() {
    local root="$WORK/$1" start=$SECONDS
    [[ -f "$root.made" && "$(<"$root.made")" == "$2" ]] && { say "$1: as before" && return; }
    rm -rf --one-file-system "$root" "$root.made"
    "$3"
    echo "$2" >"$root.made"
    say "$1: $((SECONDS - start)) s"
}

contents() { local path; for path in "$@"; do git rev-parse "$REF:$path"; done | paste -sd ' '; }
copy() { cp -ax --reflink=auto "$@"; }

make_base() {
    mkdir -p "$WORK/debs"
    debootstrap --variant=minbase --cache-dir="$WORK/debs" trixie "$WORK/base" "$MIRROR" >"$WORK/debootstrap.log" 2>&1 ||
        { tail -n 20 "$WORK/debootstrap.log" >&2 && die "debootstrap failed"; }
    rm -rf "$WORK"/base/var/cache/apt/archives/* "$WORK"/base/var/lib/apt/lists/*
}

# The part of the repository that .dockerignore lets through is what the build sees.
sources() {
    local paths
    readarray -t paths < <(git show "$REF:.dockerignore" | sed -nE 's/^!(.*)/:(glob)\1/p')
    mkdir -p "$1"
    git archive "$REF" -- "${paths[@]}" | tar -x -C "$1"
}

make_build() {
    copy "$WORK/base" "$WORK/build"
    sources "$WORK/build$SOURCES"
    installs build "$STEPS" compiler
    installs build "$STEPS" dependencies "$VARIANT"
}

make_image() {
    rm -rf --one-file-system "$WORK/build$SOURCES" "$WORK/image"
    sources "$WORK/build$SOURCES"
    installs build "$STEPS" project
    copy "$WORK/base" "$WORK/image"
    sources "$WORK/image$SOURCES"
    installs image "$STEPS" runtime
    copy "$WORK/build$ENVIRONMENT" "$WORK/image$ENVIRONMENT"
    rm -rf --one-file-system "$WORK/image$SOURCES"
}

# ---- What has to hold.

megabytes() { du -sxm "$1" | cut -f1; }

check_entry_points() {
    say "as the image's user:"
    local command
    read -ra command < <(image_command)
    [[ "$(uses "${command[@]}")" == "Usage: generic-trainer"* ]] || die "${command[*]} shows no help"
    uses bash -lc 'generic-trainer --version && ray --version' | sed 's/^/   /'
    uses mkdir -p "$HOME_IN_IMAGE/tried"
    git show "$REF:scripts/try_image.py" >"$WORK/image/tmp/try_image.py"
    uses python /tmp/try_image.py "$HOME_IN_IMAGE/tried"
}

# Kubernetes and Vertex AI end a container by SIGTERM to its first process, whom the kernel spares a signal that it has
# no handler for.
check_sigterm() {
    local first log="$WORK/sigterm.log" tried="$HOME_IN_IMAGE/tried" code=0 outer
    mounted image
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
    ((code == 143)) || { cat "$log" && die "the first process ended with $code after SIGTERM, not with 143"; }
    echo "   SIGTERM to the container's first process"
}

# ---- The repository's tests, in the development environment of Python 3.13.

make_tests() {
    copy "$WORK/base" "$WORK/tests"
    sources "$WORK/tests$SOURCES"
    installs tests "$STEPS" runtime
    installs tests sh -c 'apt-get update -qq && apt-get install -qq --yes --no-install-recommends make g++ patch python3-dev python3-venv >/dev/null'
}

run_tests() {
    local start=$SECONDS
    find "$WORK/tests$SOURCES" -mindepth 1 -maxdepth 1 ! -name '.venv*' ! -name .uv -exec rm -rf {} +
    git archive "$REF" | tar -x -C "$WORK/tests$SOURCES"
    chroot "$WORK/tests" chown -R 1000:1000 "$SOURCES"
    mounted tests
    bound "$(certificates)" "$WORK/tests" /run/secrets/certificates
    mkdir -p "$WORK/tests$HOME_IN_IMAGE/.cache"
    chown 1000:1000 "$WORK/tests$HOME_IN_IMAGE/.cache"
    local user=(chroot --userspec=1000:1000 --groups='' "$WORK/tests" /usr/bin/env -i --chdir="$SOURCES" HOME="$HOME_IN_IMAGE"
        LC_ALL=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin "${NETWORK[@]}" LANE=py313)
    "${user[@]}" scripts/bootstrap.sh
    say "development environment: $((SECONDS - start)) s, $(megabytes "$WORK/tests$SOURCES/.venv") MB"
    "${user[@]}" make test PYTEST_ARGS="$1"
}

# ---- A wheel with one of the stacks that are promised.

make_stack() {
    copy "$WORK/base" "$WORK/stack"
    sources "$WORK/stack$SOURCES"
    installs stack "$STEPS" compiler
}

try_stack() {
    rm -rf --one-file-system "$WORK/stack$SOURCES"
    mkdir -p "$WORK/stack$SOURCES/dist"
    git archive "$REF" scripts requirements | tar -x -C "$WORK/stack$SOURCES"
    cp "$2" "$WORK/stack$SOURCES/dist/"
    installs stack env KEEP="${KEEP:-}" scripts/check-stack.sh "$1"
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
    layer build "$(<"$WORK/base.made") $VARIANT $(contents "$STEPS" requirements/image.txt requirements/image-cuda.txt)" make_build
    make_image
    say "image ($VARIANT): $(megabytes "$WORK/image") MB, of which $(megabytes "$WORK/image$ENVIRONMENT") MB are $ENVIRONMENT; $((SECONDS - start)) s"
    check_entry_points
    check_sigterm
    say "image: all of it $((SECONDS - start)) s"
    if [[ "${1:-}" == --tests ]]; then
        layer tests "$(<"$WORK/base.made") $(contents "$STEPS")" make_tests
        run_tests "${2:-}"
    fi
}

case "${1:-}" in
    --inside) shift && inside "$@" ;;
    "" | --tests | --stack) outside "$@" ;;
    *) die "usage: $0 [--tests [ARGUMENTS OF PYTEST] | --stack STACK WHEEL]" ;;
esac
