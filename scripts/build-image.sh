#!/usr/bin/env bash
# Builds the container image with the engine that is here: docker, podman or buildah.
#
#   IMAGE=registry/generic-trainer:1 VARIANT=gpu scripts/build-image.sh [ARGUMENT OF THE BUILD ...]
#
# PIP_CONFIG_FILE (a company's package index) and SSL_CERT_FILE (its certificates) are used for the build where they are
# set, and are not kept in the image. Proxies come from http_proxy, https_proxy and no_proxy, as the engines do it.
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
        die "docker is here, but no engine answers it (docker info tells why). Start one, or install podman." \
            "Without an engine, make check-image makes and tries the image's content."
    else
        die "no container engine on this machine: install docker, podman or buildah." \
            "Without one, make check-image makes and tries the image's content."
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
echo "$engine builds $IMAGE ($VARIANT)"
DOCKER_BUILDKIT=1 "$engine" build "${arguments[@]}" "$@" .
