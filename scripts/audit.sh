#!/usr/bin/env bash
# Security audit: bandit scans the code, pip-audit scans the locked dependencies.
#
#   scripts/audit.sh                       the package, its scripts and all locks
#   scripts/audit.sh requirements/py311.txt    only this lock
#   OSV_URL=https://osv.example.com/v1/query scripts/audit.sh    queries a mirror of OSV
#
# Accepted vulnerabilities are listed in requirements/accepted-vulnerabilities.txt. If no vulnerability service can be
# reached, as behind a mirror with packages only, the script prints a message and succeeds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

scripts/tools.sh
TOOLS=.venv-tools/bin
SECONDS_TO_ANSWER=5
LOCKS=(requirements/{py310,py311,py312,py313,legacy-py310,airflow-py311,image,tools}.txt)
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

if (($#)); then
    LOCKS=("$@")
else
    "$TOOLS/bandit" --quiet --recursive --configfile pyproject.toml \
        __init__.py version.py cli components executors module_files pipelines scripts
    echo "bandit: no findings"
fi

# query SERVICE [ARGUMENT ...]
query() {
    local place=(--vulnerability-service "$1")
    [[ "$1" != osv || -z "${OSV_URL:-}" ]] || place+=(--osv-url "$OSV_URL")
    "$TOOLS/pip-audit" --progress-spinner off --timeout "$SECONDS_TO_ANSWER" --disable-pip "${place[@]}" "${@:2}"
}

# This version has known vulnerabilities. A service that reports none has no data, and would pass everything.
echo 'jinja2==2.10' >"$work/known.txt"
service=""
for one in ${OSV_URL:+osv} pypi osv; do
    query "$one" --no-deps --format json --requirement "$work/known.txt" >"$work/answer" 2>/dev/null || true
    grep -q '"fix_versions"' "$work/answer" && service="$one" && break
done
if [[ -z "$service" ]]; then
    echo "pip-audit: skipped: no vulnerability data is available from PyPI or OSV. The locks were not audited."
    exit
fi

accepted=()
while read -r id _; do
    [[ -z "$id" || "$id" == \#* ]] || accepted+=(--ignore-vuln "$id")
done <requirements/accepted-vulnerabilities.txt

found=0
for lock in "${LOCKS[@]}"; do
    echo "pip-audit, by $service: $lock"
    query "$service" --require-hashes "${accepted[@]}" --requirement "$lock" || found=1
done
exit "$found"
