#!/usr/bin/env bash
# The steps that build the container image, for the Dockerfile and for scripts/check-image.sh, which runs them without a
# container engine. Each runs as root on Debian 13.
#
#   scripts/install-image.sh compiler              build dependencies of the next two steps
#   scripts/install-image.sh dependencies VARIANT  installs the locked packages into /opt/generic-trainer
#   scripts/install-image.sh project               installs this project there
#   scripts/install-image.sh runtime               installs Python, and sets up the user and the PATH of login shells
#
# VARIANT is cpu, gpu (with CUDA's libraries), or slim (without Ray, Kubeflow Pipelines and MaxCompute).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ENVIRONMENT=/opt/generic-trainer
USER_ID=1000

# If set, no byte code would be written, and imports of TensorFlow would take about three times as long.
unset PYTHONDONTWRITEBYTECODE
export DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
umask 022
# Build secrets are mounted here by container engines: a package index and certificates.
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
        slim) locks=(requirements/image-slim.txt) ;;
        *) die "VARIANT must be cpu, gpu or slim, not '$1'" ;;
    esac
    # pip is included: TFX runs it to package module files, and derived images install packages with it.
    python3 -m venv --clear "$ENVIRONMENT"
    # Only pyfarmhash has no wheels. It is built with the locked setuptools instead of the newest one.
    locked --requirement <(awk '/^[^ #]/ { wanted = /^setuptools==/ } wanted' requirements/image.txt)
    locked --no-build-isolation "${locks[@]/#/--requirement=}"
    shrink
    # pip compiles with one process, this with one per core. Errors are ignored: some templates and tests contain
    # intentional syntax errors.
    "$ENVIRONMENT/bin/python" -W ignore -m compileall -qq -j 0 "$ENVIRONMENT"/lib/python3*/site-packages || true
    sed -nE 's/^([A-Za-z0-9._-]+)(\[[^]]*\])?(==[^ ;]+).*/\1\3/p' "${locks[@]}" >"$ENVIRONMENT/constraints.txt"
}

# Removes what only building on the packages or debugging them needs: 0.4 GB of TensorFlow's headers (for custom ops,
# reinstall tensorflow with pip), 0.4 GB of symbol tables, libclang, Ray's Java workers, and the tests of packages.
# Libraries that auditwheel patched (numpy, scipy) are not stripped, because that can break them.
shrink() {
    cd "$ENVIRONMENT"/lib/python3*/site-packages
    rm -rf tensorflow/include clang/native ray/jars
    find . -regextype egrep -size +1M \
        -regex '\./(tensorflow|pyarrow|apache_beam|zstandard|ray|tfx_bsl|ml_metadata|tensorflow_data_validation)/.*\.so[.0-9]*' \
        -exec strip --strip-unneeded {} +
    find numpy pandas pyarrow scipy sklearn -type d -name tests -prune -exec rm -rf {} +
    cd - >/dev/null
}

project() {
    "$ENVIRONMENT/bin/python" -m pip install --quiet --no-index --no-deps --no-build-isolation .
}

runtime() {
    # KubeRay's probes call wget in the container.
    debian_packages ca-certificates python3 wget
    useradd --uid "$USER_ID" --create-home --shell /bin/bash trainer
    # Platforms that assign a user ID to each container put it into group 0.
    chgrp 0 /home/trainer
    chmod 770 /home/trainer
    # KubeRay starts Ray in a login shell, and /etc/profile resets PATH.
    echo "PATH=$ENVIRONMENT/bin:\$PATH" >/etc/profile.d/generic-trainer.sh
}

case "${1:-}" in
    compiler | project | runtime) "$1" ;;
    dependencies) dependencies "${2:-}" ;;
    *) die "usage: $0 compiler | dependencies cpu|gpu|slim | project | runtime" ;;
esac
