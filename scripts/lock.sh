#!/usr/bin/env bash
# Writes the locks again. A version that is already locked stays, unless setup.cfg or the overrides exclude it or the
# arguments say otherwise: scripts/lock.sh --upgrade, scripts/lock.sh --upgrade-package tfx
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

uv="$(scripts/find-uv.sh)"
export UV_CUSTOM_COMPILE_COMMAND="make lock"

# compile LANE PYTHON GLIBC OVERRIDES [ARGUMENT ...]
compile() {
    local lane="$1" python="$2" glibc="$3" overrides="$4"
    shift 4
    echo "requirements/$lane.txt"
    # --no-config: [tool.uv] in pyproject.toml holds the main lanes' overrides, which the legacy lane must not have.
    "$uv" pip compile setup.cfg --quiet --no-config --no-emit-index-url --generate-hashes \
        --python-version "$python" --python-platform "x86_64-manylinux_$glibc" \
        --override "requirements/$overrides.txt" --output-file "requirements/$lane.txt" "$@"
}

compile py310 3.10 2_28 overrides --extra dev --extra estimator --extra kfp --extra ray "$@"
compile py311 3.11 2_28 overrides --extra dev --extra estimator --extra kfp --extra ray "$@"
compile py312 3.12 2_40 overrides --extra dev --extra estimator --extra kfp --extra ray "$@"
compile py313 3.13 2_40 overrides --extra dev --extra estimator --extra kfp --extra ray "$@"
# Without kfp: from 2.14 on it wants a newer protobuf than TFX 1.15.1 has.
compile legacy-py310 3.10 2_28 overrides-legacy --extra dev --extra ray "$@"
