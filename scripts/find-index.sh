#!/usr/bin/env bash
# Prints the package index that pip is set to use on this machine, or nothing: uv does not read pip's configuration, and
# a company's mirror often stands only there. Nothing, too, where uv has settings of its own.
#
#   scripts/find-index.sh [PYTHON]    of which pip; python3's by default
set -euo pipefail

[[ -z "${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-}${UV_CONFIG_FILE:-}" ]] || exit 0
echo "${PIP_INDEX_URL:-$("${1:-python3}" -m pip config get global.index-url 2>/dev/null || true)}"
