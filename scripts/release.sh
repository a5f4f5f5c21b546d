#!/usr/bin/env bash
# Builds the last commit as a release into dist/: sdist, wheel, constraints for pip, a bill of materials of the container
# image's lock (CycloneDX), release notes from CHANGELOG.md, and SHA256SUMS of all files.
#
#   scripts/release.sh
#
# Builds are reproducible: sources are taken from git, and file times from the commit.
# Fails if the tree is not clean, or the versions in version.py, setup.cfg, CITATION.cff and CHANGELOG.md differ.
# VENV is the environment for building, TOOLS the one for checks (default: .venv-tools, which is created).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV="$(realpath "${VENV:-.venv}")"
[[ -n "${TOOLS:-}" ]] || { scripts/tools.sh && TOOLS=.venv-tools; }
TOOLS="$(realpath "$TOOLS")"
umask 022
export LC_ALL=C.UTF-8 TZ=UTC
unset PYTHONPATH

die() {
    echo "error: $*" >&2
    exit 1
}

# ---- Preconditions.

[[ -z "$(git status --porcelain)" ]] || die "the tree is not clean: commit or remove these files:
$(git status --porcelain)"

version="$(sed -nE 's/^__version__ = "(.*)"/\1/p' version.py)"
[[ "$(sed -nE 's/^version = (.*)/\1/p' setup.cfg)" == "$version" ]] || die "setup.cfg's version is not $version, as in version.py"
[[ "$(sed -nE 's/^version: "?([^"]*)"?$/\1/p' CITATION.cff)" == "$version" ]] || die "CITATION.cff's version is not $version, as in version.py"
tagged="$(git rev-parse --quiet --verify "refs/tags/v$version^{commit}" || true)"
[[ -z "$tagged" || "$tagged" == "$(git rev-parse HEAD)" ]] || die "the tag v$version exists for another commit: set a new version in version.py"

heading="## [$version] - "
notes="$(awk -v heading="$heading" '/^## / { wanted = index($0, heading) == 1; next } wanted' CHANGELOG.md)"
grep -qE "^## \[${version//./\\.}\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md ||
    die "CHANGELOG.md has no heading '${heading}YYYY-MM-DD'"
grep -q '[^[:space:]]' <<<"$notes" || die "CHANGELOG.md has no text under '$heading…'"

SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
export SOURCE_DATE_EPOCH

# ---- Build in a temporary folder.

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
out="$work/out"
mkdir "$work/source" "$out"
git archive HEAD | tar -x -C "$work/source"

build() {
    "$VENV/bin/python" -m build --no-isolation "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2 && die "python -m build failed"; }
}
build --sdist --outdir "$work" "$work/source"
built="$work/generic_trainer-$version"
# setuptools writes the current times, owners and modes into the archive; normalize them.
tar -xzf "$built.tar.gz" -C "$work"
chmod -R u=rwX,go=rX "$built"
tar -c --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$work" \
    "$(basename "$built")" | gzip -n -9 >"$out/$(basename "$built").tar.gz"
# Build the wheel from the sdist, as an installer would.
build --wheel --outdir "$out" "$built"
"$TOOLS/bin/twine" --no-color check --strict "$out"/*.tar.gz "$out"/*.whl

# ---- Accompanying files.

cp requirements/constraints-*.txt "$out"
{
    echo "[project]"
    for field in name version description license; do
        echo "$field = \"$(sed -nE "s/^$field = (.*)/\1/p" setup.cfg)\""
    done
} >"$work/pyproject.toml"
bill="$out/generic_trainer-$version.cdx.json"
PYTHONWARNINGS=ignore "$TOOLS/bin/cyclonedx-py" requirements requirements/image.txt --pyproject "$work/pyproject.toml" --mc-type library \
    --output-reproducible --validate --output-format JSON --output-file "$bill"

sed -e '/./,$!d' <<<"$notes" >"$out/NOTES.md"
(cd "$out" && sha256sum -- * >SHA256SUMS)

rm -rf dist
mv "$out" dist
echo "Release $version of $(git rev-parse --short HEAD):"
cat dist/SHA256SUMS
