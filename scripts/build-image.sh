#!/usr/bin/env bash
# Builds the container image with docker, podman or buildah, whichever is installed.
#
#   IMAGE=registry/generic-trainer:1 VARIANT=gpu scripts/build-image.sh [BUILD ARGUMENT ...]
#
# PIP_CONFIG_FILE (a company's package index) and SSL_CERT_FILE (its certificates) are used for the build if set,
# and are not kept in the image. Proxies are taken from http_proxy, https_proxy and no_proxy, as by the engines.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

IMAGE="${IMAGE:-generic-trainer}"
VARIANT="${VARIANT:-cpu}"

die() {
    echo "error: $*" >&2
    exit 1
}

engine() {
    if docker info >/dev/null 2>&1; then
        echo docker
    elif command -v podman >/dev/null; then
        echo podman
    elif command -v buildah >/dev/null; then
        echo buildah
    elif command -v docker >/dev/null; then
        die "docker is installed, but its engine does not respond (see docker info). Start it, or install podman." \
            "Without an engine, make check-image builds and tests the image's content."
    else
        die "no container engine on this machine: install docker, podman or buildah." \
            "Without one, make check-image builds and tests the image's content."
    fi
}

engine="$(engine)"
arguments=(--tag "$IMAGE" --build-arg "VARIANT=$VARIANT")
arguments+=(--build-arg "VERSION=$(sed -nE 's/^__version__ = "(.*)"/\1/p' version.py)")
revision="$(git rev-parse HEAD 2>/dev/null)" || revision=""
arguments+=(--build-arg "REVISION=$revision")
for setting in pip=PIP_CONFIG_FILE certificates=SSL_CERT_FILE; do
    variable="${setting#*=}"
    [[ -z "${!variable:-}" ]] || arguments+=(--secret "id=${setting%=*},src=${!variable}")
done
for name in http_proxy https_proxy no_proxy; do
    [[ -z "${!name:-}" ]] || arguments+=(--build-arg "$name=${!name}")
done
echo "Building $IMAGE ($VARIANT) with $engine"
DOCKER_BUILDKIT=1 "$engine" build "${arguments[@]}" "$@" .
