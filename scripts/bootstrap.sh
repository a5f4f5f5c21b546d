#!/usr/bin/env bash
# Creates .venv from a lock in requirements/ and installs this project into it, editable; no-op if it is up to date.
#
#   LANE=py310 scripts/bootstrap.sh                             one lane by name, instead of the first suitable one
#   LANE=legacy-py310 VENV=.venv-legacy scripts/bootstrap.sh    a second environment
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV="${VENV:-.venv}"
LANES="${LANE:-py311 py310 py313 py312}"

# If it is set, every import of TensorFlow takes about three times as long.
unset PYTHONDONTWRITEBYTECODE
export UV_COMPILE_BYTECODE=1 UV_PYTHON_DOWNLOADS=never UV_VENV_CLEAR=1

die() {
    echo "error: $*" >&2
    exit 1
}

# The stamps contain digests of the environment's inputs. Each is removed first and written last, so that interrupted
# runs are detected.
digest() { cat "$@" scripts/bootstrap.sh | sha256sum | cut -d' ' -f1; }
stamped() { [[ -f "$VENV/.$1" && "$(<"$VENV/.$1")" == "$2" ]]; }
stamp() { echo "$2" >"$VENV/.$1"; }

# The lane of an existing environment that can be reused. A moved one cannot: its console scripts contain its path.
lane_of_venv() {
    local lane="" path=""
    [[ -f "$VENV/.lane" ]] && read -r lane path <"$VENV/.lane"
    [[ -n "$lane" && "$path" == "$PWD" && " $LANES " == *" $lane "* && -f "requirements/$lane.txt" ]] || return 0
    if "$VENV/bin/python" -c '' 2>/dev/null; then echo "$lane"; fi
}

up_to_date() {
    local lane
    lane="$(lane_of_venv)"
    [[ -n "$lane" ]] || return 1
    stamped dependencies "$(digest "requirements/$lane.txt")" && stamped project "$(digest setup.cfg pyproject.toml)"
}

up_to_date && exit

if command -v flock >/dev/null; then
    exec 9>"$VENV.lock"
    flock 9
    up_to_date && exit
fi

[[ "$(uname -sm)" == "Linux x86_64" ]] || die "TFX has wheels for Linux on x86_64 only, not for $(uname -sm)"
glibc="$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)" || true
[[ -n "$glibc" ]] || die "TensorFlow's wheels need glibc; this machine has another C library"

at_least() { [[ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" == "$2" ]]; }

glibc_for() {
    case "$1" in
        py312 | py313) echo 2.39 ;; # ml-metadata and tensorflow-data-validation 1.21.0
        *) echo 2.28 ;;
    esac
}

version_of() { sed -E 's/.*py([0-9])([0-9]+)$/\1.\2/' <<<"$1"; }

# Lists the installed interpreters of a version; for a virtual environment, its base interpreter.
interpreters() {
    local version="$1" candidate
    {
        type -aP "python$version" python3 python || true
        printf '%s\n' "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python"$version" | sort -rV
        "$uv" python find --no-project "$version" 2>/dev/null || true
    } | while read -r candidate; do
        "$candidate" -c "
import os, sys
real = os.path.join(sys.base_exec_prefix, 'bin', 'python$version')
if '%d.%d' % sys.version_info[:2] == '$version' and sys.implementation.name == 'cpython' and os.path.exists(real):
    print(real)" 2>/dev/null || true
    done | awk '!seen[$0]++'
}

has_headers() { "$1" -c "import os, sysconfig as s; os.stat(os.path.join(s.get_path('include'), 'Python.h'))" 2>/dev/null; }

lane="" python="" reason=""
choose_interpreter() {
    for lane in $LANES; do
        [[ -f "requirements/$lane.txt" ]] || die "LANE=$lane: requirements/$lane.txt does not exist"
        for python in $(interpreters "$(version_of "$lane")"); do
            if ! at_least "$glibc" "$(glibc_for "$lane")"; then
                reason="${reason:-"Python $(version_of "$lane") is installed, but its wheels need glibc $(glibc_for "$lane"), and this machine has $glibc: install Python 3.11 (pyenv install 3.11)"}"
                continue
            fi
            has_headers "$python" && return
            reason="$python has no headers, which are needed to compile pyfarmhash: run apt-get install python$(version_of "$lane")-dev"
        done
    done
    die "${reason:-"not installed: Python $(for lane in $LANES; do version_of "$lane"; done | sort -V | paste -sd ' '): run apt-get install python3-dev, or pyenv install 3.11"}"
}

uv="$(scripts/find-uv.sh)"

lane="$(lane_of_venv)"
lock="requirements/$lane.txt"
if [[ -z "$lane" || ! -f "$VENV/.dependencies" ]]; then
    choose_interpreter
    lock="requirements/$lane.txt"
    [[ -n "$(type -P "${CXX:-g++}")" ]] || die "no C++ compiler, which is needed to compile pyfarmhash: run apt-get install g++"
    echo "Creating $VENV with $python from $lock; the first time takes a minute or two."
    "$uv" venv --quiet --no-project --python "$python" "$VENV"
    echo "$lane $PWD" >"$VENV/.lane"
fi

if ! stamped dependencies "$(digest "$lock")"; then
    pip_python="${python:-$("$VENV/bin/python" -c 'import os, sys; print(os.path.join(sys.base_exec_prefix, "bin", "python3"))')}"
    index="$(scripts/find-index.sh "$pip_python")"
    [[ -z "$index" ]] || export UV_DEFAULT_INDEX="$index"
    rm -f "$VENV/.dependencies" "$VENV/.project"
    "$uv" pip sync --quiet --require-hashes --python "$VENV/bin/python" "$lock"
    stamp dependencies "$(digest "$lock")"
fi

rm -f "$VENV/.project"
rm -rf ./*.egg-info # left by an earlier build, these would hide the installed entry points
"$uv" pip install --quiet --no-deps --no-build-isolation --python "$VENV/bin/python" --editable .
stamp project "$(digest setup.cfg pyproject.toml)"
