#!/usr/bin/env bash
# Prints the path of a working uv: an installed one, else one that is installed with pip into .uv.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Older versions lack options that are used here.
runs() { [[ -n "$1" && "$("$1" --version 2>/dev/null)" =~ ^uv\ ([0-9]+)\.([0-9]+) ]] && ((BASH_REMATCH[1] > 0 || BASH_REMATCH[2] >= 5)); }

for uv in "$(command -v uv || true)" "$HOME/.local/bin/uv" "$HOME/.cargo/bin/uv" \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/uv "$PWD/.uv/bin/uv"; do
    if runs "$uv"; then
        echo "$uv"
        exit
    fi
done

found=""
for python in $(type -aP python3 python3.1{1,2,3,0} || true) \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' 2>/dev/null || continue
    found="${found:-$python}"
    rm -rf .uv
    if "$python" -c 'import ensurepip, venv' 2>/dev/null && "$python" -m venv .uv >/dev/null 2>&1; then
        install=(.uv/bin/python -m pip install)
    elif "$python" -m pip --version >/dev/null 2>&1; then
        install=("$python" -m pip install --target .uv)
    else
        continue
    fi
    export PIP_ROOT_USER_ACTION=ignore
    echo "uv is not installed: installing it into .uv with $python" >&2
    if ! "${install[@]}" --quiet --disable-pip-version-check uv >&2; then
        echo "error: pip could not install uv (see its message above); install uv manually and retry" >&2
        exit 1
    fi
    echo "$PWD/.uv/bin/uv"
    exit
done

if [[ -z "$found" ]]; then
    echo "error: python3 is not installed: run apt-get install python3-venv python3-dev g++" >&2
else
    echo "error: uv is not installed, and $found has neither venv nor pip to install it: run apt-get install python3-venv" >&2
fi
exit 1
