#!/usr/bin/env bash
# Prints the package index of pip's configuration, if any: uv does not read it, and a company's mirror is often configured
# only there. Prints nothing if uv has its own settings.
#
#   scripts/find-index.sh [PYTHON]    Python whose pip is used (default: python3)
set -euo pipefail

[[ -z "${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-}${UV_CONFIG_FILE:-}" ]] || exit 0
echo "${PIP_INDEX_URL:-$("${1:-python3}" -m pip config get global.index-url 2>/dev/null || true)}"
