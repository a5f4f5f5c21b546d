#!/usr/bin/env bash
# Resolves the newest versions of all dependencies, without locks and without the upper bounds of the extras, installs
# them and runs the tests with them. Prints what is newer than the lock, and what fails. Run it weekly; see
# docs/reference/stacks.md.
#
#   scripts/stacks-newest.sh              all environments
#   scripts/stacks-newest.sh main         one of them: main, kfp, airflow
#
# PYTEST_ARGS are added to pytest's arguments. The environments are in build/newest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
unset PYTHONDONTWRITEBYTECODE

uv="$(scripts/find-uv.sh)"
export UV_PYTHON_DOWNLOADS=never
python="$(.venv/bin/python -c 'import sys; print(sys.base_prefix)')/bin/python3.11"
work=build/newest
failed=()

# resolve NAME EXTRA ...: installs the newest versions into build/newest/NAME.
resolve() {
    local name="$1" package extras=()
    shift
    local extra
    for extra in "$@"; do extras+=(--extra "$extra"); done
    mkdir -p "$work"
    # The newest release of each extra's package, whatever setup.cfg allows; TFX's bounds stay, it runs with nothing else.
    cp requirements/overrides.txt "$work/$name-overrides.txt"
    for package in kfp kfp-pipeline-spec ray mlflow apache-airflow; do
        "$uv" pip compile --quiet --no-config --no-deps --no-annotate --no-header --python-version 3.11 - <<<"$package"
    done >>"$work/$name-overrides.txt"
    "$uv" pip compile setup.cfg --quiet --no-config --python-version 3.11 --no-annotate --no-header \
        --override "$work/$name-overrides.txt" "${extras[@]}" --output-file "$work/$name.txt" --upgrade
    "$uv" venv --quiet --no-project --clear --python "$python" "$work/$name"
    "$uv" pip sync --quiet --compile-bytecode --python "$work/$name/bin/python" "$work/$name.txt"
    "$uv" pip install --quiet --no-deps --no-build-isolation --python "$work/$name/bin/python" --editable .
}

# newer NAME LOCK: prints the packages whose version is not the locked one.
newer() {
    echo "== $1: newer than $2"
    join <(sed -n 's/^\([a-z0-9._-]*\)\(\[.*\]\)\?==\([^ ;]*\).*/\1 \3/p' "$2" | sort) \
        <(sed -n 's/^\([a-z0-9._-]*\)\(\[.*\]\)\?==\([^ ;]*\).*/\1 \3/p' "$work/$1.txt" | sort) |
        awk '$2 != $3 { printf "   %s %s -> %s\n", $1, $2, $3 }'
}

# tests NAME TITLE ARGUMENT ...: runs pytest; notes a failure and goes on.
tests() {
    local name="$1" title="$2"
    shift 2
    echo "== $name: $title"
    "$work/$name/bin/python" -m pytest --thorough=none -q "$@" ${PYTEST_ARGS:-} || failed+=("$name: $title")
}

if [[ "${1:-main}" == main ]]; then
    resolve main dev docs estimator mlflow ray s3
    newer main requirements/py311.txt
    tests main "quick tests" -n 2 --dist worksteal -m "not slow" --ignore tests/security --ignore tests/upstream
    tests main "Ray" tests/executors/engines -k ray
    tests main "Estimators and pipelines" tests/pipelines/local
fi
# In an environment of its own: other packages must not hold back its version.
if [[ "${1:-kfp}" == kfp ]]; then
    resolve kfp dev estimator kfp
    newer kfp requirements/py311.txt
    tests kfp "Kubeflow Pipelines" tests/pipelines/kubeflow tests/executors/kubeflow
fi
if [[ "${1:-airflow}" == airflow ]]; then
    resolve airflow airflow dev
    newer airflow requirements/airflow-py311.txt
    tests airflow "Airflow" tests/pipelines/test_airflow.py
fi
if ((${#failed[@]})); then
    printf '== fails with the newest versions: %s\n' "${failed[@]}"
    exit 1
fi
echo "== all tests pass with the newest versions"
