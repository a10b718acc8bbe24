#!/usr/bin/env bash
# Tests the npm package and the page, which `cargo xtask npm` and `page` build, and the page of a report: the package in an empty project, the pages in Chromium.
# Installs what that needs. `MODELS=FOLDER` converts the models below a folder, too.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
command -v chromium > /dev/null || missing+=(chromium)
fc-list 2> /dev/null | grep --quiet 'Noto Sans CJK' || missing+=(fonts-noto-cjk)
if [ ${#missing[@]} -gt 0 ]; then
    apt-get update --quiet=2
    apt-get install --quiet=2 --no-install-recommends "${missing[@]}" > /dev/null
fi

cargo build --quiet
if [ "${1:-}" != --built ]; then
    cargo xtask npm
    cargo xtask page
fi
cd web
# Node 20 does not read TypeScript.
npx tsc --project test
node --test --test-concurrency=1 .built/*.test.js
