#!/usr/bin/env bash
# Builds the release that the last commit is, into dist/: sdist, wheel, constraints for pip, a bill of materials of what
# the container image's lock holds (CycloneDX), release notes out of CHANGELOG.md, and SHA256SUMS of all of them.
#
#   scripts/release.sh
#
# Whoever builds the same commit with the same lock gets the same bytes: sources come out of git, times are the commit's.
# Refused where the tree is not clean, or version.py, setup.cfg, CITATION.cff and CHANGELOG.md do not agree.
# VENV is the environment that builds, TOOLS the one that checks (default: .venv-tools, which is made).
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

# ---- What is to be released.

[[ -z "$(git status --porcelain)" ]] || die "the tree is not clean: commit these, or take them away:
$(git status --porcelain)"

version="$(sed -nE 's/^__version__ = "(.*)"/\1/p' version.py)"
[[ "$(sed -nE 's/^version = (.*)/\1/p' setup.cfg)" == "$version" ]] || die "setup.cfg's version is not $version, that of version.py"
[[ "$(sed -nE 's/^version: "?([^"]*)"?$/\1/p' CITATION.cff)" == "$version" ]] || die "CITATION.cff's version is not $version, that of version.py"
tagged="$(git rev-parse --quiet --verify "refs/tags/v$version^{commit}" || true)"
[[ -z "$tagged" || "$tagged" == "$(git rev-parse HEAD)" ]] || die "the tag v$version is another commit: version.py has to name a new version"

heading="## [$version] - "
notes="$(awk -v heading="$heading" '/^## / { wanted = index($0, heading) == 1; next } wanted' CHANGELOG.md)"
grep -qE "^## \[${version//./\\.}\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$" CHANGELOG.md ||
    die "CHANGELOG.md has no heading '${heading}YYYY-MM-DD'"
grep -q '[^[:space:]]' <<<"$notes" || die "CHANGELOG.md says nothing below '$heading…'"

SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)"
export SOURCE_DATE_EPOCH

# ---- Building, apart from this folder.

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
out="$work/out"
mkdir "$work/source" "$out"
git archive HEAD | tar -x -C "$work/source"

builds() {
    "$VENV/bin/python" -m build --no-isolation "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2 && die "python -m build failed"; }
}
builds --sdist --outdir "$work" "$work/source"
built="$work/generic_trainer-$version"
# setuptools writes times, owners and modes of this moment and machine into the archive.
tar -xzf "$built.tar.gz" -C "$work"
chmod -R u=rwX,go=rX "$built"
tar -c --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$work" \
    "$(basename "$built")" | gzip -n -9 >"$out/$(basename "$built").tar.gz"
# Out of the sdist, as an installer would do it.
builds --wheel --outdir "$out" "$built"
"$TOOLS/bin/twine" --no-color check --strict "$out"/*.tar.gz "$out"/*.whl

# ---- What goes with it.

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
