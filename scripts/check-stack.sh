#!/usr/bin/env bash
# Installs the wheel with plain pip into a fresh environment of one of the supported stacks, and tests it there, outside
# of the repository (scripts/try_stack.py). The last line of its output is the stack's row in docs/reference/stacks.md.
#
#   scripts/check-stack.sh tfx1.15             TFX 1.15.1, TensorFlow 2.15, Python 3.10
#   scripts/check-stack.sh tfx1.16             TFX 1.16.0, TensorFlow 2.16, Python 3.10
#   scripts/check-stack.sh tfx1.21             TFX 1.21.0, TensorFlow 2.21, Python 3.13; with glibc older than 2.39 it runs
#                                              in a Debian 13 root, as root (scripts/check-image.sh)
#   scripts/check-stack.sh tfx1.21-overrides   TFX 1.21.0, TensorFlow 2.21, Python 3.11 with requirements/overrides.txt
#
# WHEEL is the wheel (default: dist/*.whl, built by make wheel), WORK the working folder (default: in $TMPDIR). KEEP=1
# keeps the environment and the outputs, and reuses an existing environment. Neither uv nor .venv is used.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
REPOSITORY="$PWD"

unset PYTHONDONTWRITEBYTECODE PYTHONPATH
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

die() {
    echo "error: $*" >&2
    exit 1
}

stack="${1:-}"
constraints="$REPOSITORY/requirements/constraints-$stack.txt"
case "$stack" in
    tfx1.15 | tfx1.16) version=3.10 ;;
    tfx1.21-overrides) version=3.11 ;;
    tfx1.21) version=3.13 ;;
    *) die "usage: $0 tfx1.15 | tfx1.16 | tfx1.21 | tfx1.21-overrides" ;;
esac

wheels=("${WHEEL:-}")
[[ -n "${WHEEL:-}" ]] || wheels=("$REPOSITORY"/dist/*.whl)
[[ ${#wheels[@]} == 1 && -f "${wheels[0]}" ]] || die "WHEEL: needs exactly one wheel file, not ${wheels[*]}; run make wheel"
wheel="$(realpath "${wheels[0]}")"

at_least() { [[ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" == "$2" ]]; }
glibc="$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)"
if [[ "$stack" == tfx1.21 ]] && ! at_least "$glibc" 2.39; then
    echo "== $stack: the glibc of this machine is $glibc; using a Debian 13 root"
    exec scripts/check-image.sh --stack "$stack" "$wheel"
fi

interpreter() {
    local candidate
    for candidate in $(type -aP "python$version" || true) "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python"$version"; do
        if "$candidate" -c 'import venv, ensurepip' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    die "Python $version with venv is not installed: run apt-get install python$version-venv, or pyenv install $version"
}

WORK="${WORK:-${TMPDIR:-/tmp}/generic-trainer-stacks}/$stack"
environment="$WORK/environment"
python="$environment/bin/python"
mkdir -p "$WORK"
[[ -n "${KEEP:-}" ]] || trap 'rm -rf "$WORK"' EXIT
# The working folder, where nothing is imported from the repository.
cd "$WORK"

installed=""
if [[ ! -f "$environment/.installed" ]]; then
    start=$SECONDS
    found="$(interpreter)"
    "$found" -m venv --clear "$environment"
    echo "== $stack: $("$python" --version), $("$python" -m pip --version | cut -d' ' -f1,2), $(basename "$wheel")"
    # The commands of docs/reference/stacks.md.
    if [[ "$stack" == tfx1.21-overrides ]]; then
        "$python" -m pip install --quiet --no-deps -r "$constraints" "$wheel"
    else
        "$python" -m pip install --quiet "$wheel[estimator]" -c "$constraints"
        "$python" -m pip check
    fi
    installed=$((SECONDS - start))
    echo "$installed" >"$environment/.installed"
else
    "$python" -m pip install --quiet --no-deps --force-reinstall "$wheel"
    installed="$(<"$environment/.installed")"
fi
size="$(du -sm "$environment" | cut -f1)"
echo "== installed in $installed s, $size MB"
versions="$("$environment/bin/generic-trainer" --version)"
echo "$versions"

rm -rf "$WORK/tried"
mkdir "$WORK/tried"
"$python" "$REPOSITORY/scripts/try_stack.py" "$WORK/tried"

release() { sed -n "s/^$1 //p" <<<"$versions"; }
seconds() { "$python" -c "import json; print(*list(json.load(open('$WORK/tried/seconds.json')).values())[1:], sep=' s | ')"; }
system="$(. /etc/os-release && echo "$ID $VERSION_ID")"
echo "== $stack works; row for the table of stacks:"
echo "| \`$stack\` | $(release tfx) | $(release tensorflow) | $(release python) | $system, glibc $glibc | $installed s, $size MB | $(seconds) s |"
