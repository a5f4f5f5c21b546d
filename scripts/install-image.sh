#!/usr/bin/env bash
# What the container image is made of, step by step: for the Dockerfile, and for scripts/check-image.sh, which takes the
# same steps without a container engine. Each runs as root on Debian 13.
#
#   scripts/install-image.sh compiler              what the next two steps need and the image does not
#   scripts/install-image.sh dependencies cpu|gpu  the locked packages, into /opt/generic-trainer
#   scripts/install-image.sh project               this project beside them
#   scripts/install-image.sh runtime               what else the image has: Python, the user, the path of login shells
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ENVIRONMENT=/opt/generic-trainer
USER_ID=1000

# Where it is set, byte code would be left out, and every import of TensorFlow take about three times as long.
unset PYTHONDONTWRITEBYTECODE
export DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
umask 022
# Where engines put the secrets of a build: a package index and certificates.
[[ ! -f /run/secrets/pip ]] || export PIP_CONFIG_FILE=/run/secrets/pip
[[ ! -f /run/secrets/certificates ]] || export PIP_CERT=/run/secrets/certificates

die() {
    echo "error: $*" >&2
    exit 1
}

debian_packages() {
    apt-get update -qq
    apt-get install -qq --yes --no-install-recommends "$@" >/dev/null
    apt-get clean
    rm -rf /var/lib/apt/lists/*
}

compiler() {
    debian_packages ca-certificates g++ python3-dev python3-venv
}

locked() { "$ENVIRONMENT/bin/python" -m pip install --quiet --no-compile --no-deps --require-hashes "$@"; }

dependencies() {
    local locks=(requirements/image.txt)
    case "$1" in
        cpu) ;;
        gpu) locks+=(requirements/image-cuda.txt) ;;
        *) die "VARIANT is cpu or gpu, not '$1'" ;;
    esac
    # It has pip, which TFX starts to package module files, and which images built on this one install with.
    python3 -m venv --clear "$ENVIRONMENT"
    # pyfarmhash alone has no wheels. It is built with the setuptools of the lock, not with the newest there is.
    locked --requirement <(awk '/^[^ #]/ { wanted = /^setuptools==/ } wanted' requirements/image.txt)
    locked --no-build-isolation "${locks[@]/#/--requirement=}"
    # pip compiles with one process, this with one for each core. Errors are those of templates and of tests that have
    # a syntax error on purpose.
    "$ENVIRONMENT/bin/python" -W ignore -m compileall -qq -j 0 "$ENVIRONMENT"/lib/python3*/site-packages || true
    sed -nE 's/^([A-Za-z0-9._-]+)(\[[^]]*\])?(==[^ ;]+).*/\1\3/p' "${locks[@]}" >"$ENVIRONMENT/constraints.txt"
}

project() {
    "$ENVIRONMENT/bin/python" -m pip install --quiet --no-index --no-deps --no-build-isolation .
}

runtime() {
    # KubeRay's probes are calls of wget in the container.
    debian_packages ca-certificates python3 wget
    useradd --uid "$USER_ID" --create-home --shell /bin/bash trainer
    # Platforms that give each container a user ID of its own put it into the group 0.
    chgrp 0 /home/trainer
    chmod 770 /home/trainer
    # KubeRay starts Ray in a login shell, and /etc/profile sets PATH anew.
    echo "PATH=$ENVIRONMENT/bin:\$PATH" >/etc/profile.d/generic-trainer.sh
}

case "${1:-}" in
    compiler | project | runtime) "$1" ;;
    dependencies) dependencies "${2:-}" ;;
    *) die "usage: $0 compiler | dependencies cpu|gpu | project | runtime" ;;
esac
