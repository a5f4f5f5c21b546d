#!/usr/bin/env bash
# Creates .venv-tools, the environment for audits and releases, from its lock; no-op if it is up to date.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TOOLS=.venv-tools
LOCK=requirements/tools.txt
export UV_COMPILE_BYTECODE=1 UV_PYTHON_DOWNLOADS=never UV_VENV_CLEAR=1

# The stamp contains the lock's digest and the environment's path, which its console scripts contain, too.
made_of="$PWD $(sha256sum <"$LOCK")"
up_to_date() { [[ -f "$TOOLS/.stamp" && "$(<"$TOOLS/.stamp")" == "$made_of" ]] && "$TOOLS/bin/python" -c '' 2>/dev/null; }

up_to_date && exit
exec 9>"$TOOLS.lock"
flock 9
up_to_date && exit

echo "Creating $TOOLS from $LOCK"
uv="$(scripts/find-uv.sh)"
index="$(scripts/find-index.sh)"
[[ -z "$index" ]] || export UV_DEFAULT_INDEX="$index"
"$uv" venv --quiet --no-project --python '>=3.10,<3.14' "$TOOLS"
"$uv" pip sync --quiet --require-hashes --python "$TOOLS/bin/python" "$LOCK"
echo "$made_of" >"$TOOLS/.stamp"
