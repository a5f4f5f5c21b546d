#!/usr/bin/env bash
# Looks for what should not be in this project: bandit in its code, pip-audit in its locks.
#
#   scripts/audit.sh                       the package, its scripts, and every lock
#   scripts/audit.sh requirements/py311.txt    locks alone
#   OSV_URL=https://osv.example.com/v1/query scripts/audit.sh    asks a mirror of OSV
#
# What pip-audit may let pass stands in requirements/accepted-vulnerabilities.txt. Where no data on vulnerabilities can
# be reached, as behind a mirror that has packages alone, that is said, and is no failure.
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

# ask SERVICE [ARGUMENT ...]
ask() {
    local place=(--vulnerability-service "$1")
    [[ "$1" != osv || -z "${OSV_URL:-}" ]] || place+=(--osv-url "$OSV_URL")
    "$TOOLS/pip-audit" --progress-spinner off --timeout "$SECONDS_TO_ANSWER" --disable-pip "${place[@]}" "${@:2}"
}

# Who knows nothing of this version, of which there is much to know, has no data, and would let everything pass.
echo 'jinja2==2.10' >"$work/known.txt"
service=""
for one in ${OSV_URL:+osv} pypi osv; do
    ask "$one" --no-deps --format json --requirement "$work/known.txt" >"$work/answer" 2>/dev/null || true
    grep -q '"fix_versions"' "$work/answer" && service="$one" && break
done
if [[ -z "$service" ]]; then
    echo "pip-audit: not asked: neither PyPI nor OSV tells this machine of vulnerabilities. The locks were not audited."
    exit
fi

accepted=()
while read -r id _; do
    [[ -z "$id" || "$id" == \#* ]] || accepted+=(--ignore-vuln "$id")
done <requirements/accepted-vulnerabilities.txt

found=0
for lock in "${LOCKS[@]}"; do
    echo "pip-audit, by $service: $lock"
    ask "$service" --require-hashes "${accepted[@]}" --requirement "$lock" || found=1
done
exit "$found"
