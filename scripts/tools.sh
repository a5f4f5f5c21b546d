#!/usr/bin/env bash
# Makes .venv-tools, which holds what audits and releases the project, from its lock. Does only what is not yet done.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TOOLS=.venv-tools
LOCK=requirements/tools.txt
export UV_COMPILE_BYTECODE=1 UV_PYTHON_DOWNLOADS=never UV_VENV_CLEAR=1

# The stamp holds what the environment was made from, and its path, which its console scripts hold too.
made_of="$PWD $(sha256sum <"$LOCK")"
up_to_date() { [[ -f "$TOOLS/.stamp" && "$(<"$TOOLS/.stamp")" == "$made_of" ]] && "$TOOLS/bin/python" -c '' 2>/dev/null; }

up_to_date && exit
exec 9>"$TOOLS.lock"
flock 9
up_to_date && exit

echo "Making $TOOLS from $LOCK"
uv="$(scripts/find-uv.sh)"
index="$(scripts/find-index.sh)"
[[ -z "$index" ]] || export UV_DEFAULT_INDEX="$index"
"$uv" venv --quiet --no-project --python '>=3.10,<3.14' "$TOOLS"
"$uv" pip sync --quiet --require-hashes --python "$TOOLS/bin/python" "$LOCK"
echo "$made_of" >"$TOOLS/.stamp"
