#!/usr/bin/env bash
# Updates the locks. Locked versions are kept, unless setup.cfg or the overrides exclude them or the arguments upgrade
# them: scripts/lock.sh --upgrade, scripts/lock.sh --upgrade-package tfx
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

uv="$(scripts/find-uv.sh)"
export UV_CUSTOM_COMPILE_COMMAND="make lock" UV_PYTHON_DOWNLOADS=never

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

compile py310 3.10 2_28 overrides --extra dev --extra docs --extra estimator --extra kfp --extra mlflow --extra ray --extra s3 --extra bench "$@"
compile py311 3.11 2_28 overrides --extra dev --extra docs --extra estimator --extra kfp --extra mlflow --extra ray --extra s3 --extra bench "$@"
compile py312 3.12 2_40 overrides --extra dev --extra docs --extra estimator --extra kfp --extra mlflow --extra ray --extra s3 --extra bench "$@"
compile py313 3.13 2_40 overrides --extra dev --extra docs --extra estimator --extra kfp --extra mlflow --extra ray --extra s3 --extra bench "$@"
# Airflow requires older versions of many packages than the other lanes.
compile airflow-py311 3.11 2_28 overrides --extra airflow --extra dev "$@"
# Without kfp: since 2.14 it requires a newer protobuf than TFX 1.15.1.
compile legacy-py310 3.10 2_28 overrides-legacy --extra dev --extra ray --extra s3 --extra bench "$@"

# Constraints (-c) for installing the wheel with pip in a stack of scripts/check-stack.sh. They contain versions only:
# constraints with hashes would require a hash of the wheel, too, and pip does not support them with extras. If a lane
# of requirements/ is tested with that TFX, its versions are used.
# constraints STACK PYTHON GLIBC [ARGUMENT ...]
constraints() {
    local stack="$1" python="$2" glibc="$3"
    shift 3
    echo "requirements/constraints-$stack.txt"
    "$uv" pip compile setup.cfg --quiet --no-config --no-emit-index-url --no-annotate --strip-extras --extra estimator \
        --python-version "$python" --python-platform "x86_64-manylinux_$glibc" \
        --output-file "requirements/constraints-$stack.txt" "$@"
}

constraints tfx1.15 3.10 2_28 --constraint requirements/legacy-py310.txt --constraint requirements/overrides-legacy.txt "$@"
constraints tfx1.16 3.10 2_28 --constraint requirements/stack-tfx1.16.txt "$@"
constraints tfx1.21 3.13 2_40 --constraint requirements/stack-tfx1.21.txt "$@"
constraints tfx1.21-overrides 3.11 2_28 --constraint requirements/py311.txt --override requirements/overrides.txt "$@"

echo requirements/tools.txt
"$uv" pip compile requirements/tools.in --quiet --no-config --no-emit-index-url --generate-hashes --universal \
    --python-version 3.10 --output-file requirements/tools.txt "$@"

# The container image uses the tested versions of the lane py313.
compile image 3.13 2_40 overrides --constraint requirements/py313.txt \
    --extra estimator --extra kfp --extra kuberay --extra maxcompute --extra s3 "$@"
compile image-slim 3.13 2_40 overrides --constraint requirements/image.txt --extra estimator "$@"

# The additional packages of TensorFlow's CUDA libraries: the entries of a lock with them that the image's lock lacks.
echo requirements/image-cuda.txt
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cat requirements/image.txt requirements/image-cuda.txt >"$work/all.txt" 2>/dev/null || true
sed 's/^tensorflow==/tensorflow[and-cuda]==/' requirements/overrides.txt >"$work/overrides.txt"
"$uv" pip compile setup.cfg --quiet --no-config --no-emit-index-url --generate-hashes --no-annotate \
    --python-version 3.13 --python-platform x86_64-manylinux_2_40 --override "$work/overrides.txt" \
    --constraint requirements/image.txt --output-file "$work/all.txt" \
    --extra estimator --extra kfp --extra kuberay --extra maxcompute --extra s3 "$@"
awk 'NR == FNR { if (/^[^ #]/) locked[$1]; next }
    FNR <= 2 { print; next }
    /^[^ #]/ { wanted = !($1 in locked) }
    wanted' requirements/image.txt "$work/all.txt" >requirements/image-cuda.txt
