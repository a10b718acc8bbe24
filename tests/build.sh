#!/usr/bin/env bash
# Converts in the builds of other projects: the CMake module, the task of Gradle in docs/builds.md, and the hook of pre-commit.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
room=$(mktemp --directory)
trap 'rm -rf "$room"' EXIT

cargo build --quiet
[ -e target/build-venv/complete ] || {
    python3 -m venv --clear target/build-venv
    target/build-venv/bin/python -m pip install --quiet --disable-pip-version-check cmake==4.4.5 ninja==1.13.2 pre-commit==4.7.0
    touch target/build-venv/complete
}
if ! command -v gradle > /dev/null; then
    apt-get update --quiet=2
    apt-get install --quiet=2 --no-install-recommends gradle > /dev/null
fi
PATH=$root/target/debug:$root/target/build-venv/bin:$PATH

fail() {
    echo "$1" >&2
    exit 1
}

# CMake: the net is embedded, and made again if the model or its data change.
cp -r cmake/test "$room/project"
cp fixtures/network/digits/model.onnx "$room/project/a model.onnx"
cp fixtures/weights/external_file_each/{b,w} "$room/project"
cp fixtures/weights/external_file_each/model.onnx "$room/project/external.onnx"
build=$room/build
net=$build/embedded.ncnn
cmake -S "$room/project" -B "$build" -G Ninja -Donnx2ncnn_DIR="$root/cmake" > "$room/log" || fail "$(cat "$room/log")"
made() { cmake --build "$build" --verbose | grep --count 'onnx2ncnn --quiet' || true; }
[ "$(made)" = 2 ] || fail 'the models were not converted'
onnx2ncnn --quiet fixtures/network/digits/model.onnx "$room/net.param" "$room/net.bin" --fp16
cmp "$room/net.bin" "$net/a model.ncnn.bin"
"$build/embedded" | grep --quiet " $(stat --format %s "$room/net.bin")\$" || fail 'the net is not embedded'
[ "$(made)" = 0 ] || fail 'models that did not change were converted again'
cp fixtures/network/convolutional/model.onnx "$room/project/a model.onnx"
[ "$(made)" = 1 ] || fail 'a changed model was not converted'
onnx2ncnn --quiet fixtures/network/convolutional/model.onnx "$room/net.param" "$room/net.bin" --fp16
cmp "$room/net.bin" "$net/a model.ncnn.bin"
touch "$room/project/b"
[ "$(made)" = 1 ] || fail 'changed data were not converted'

# Gradle: the nets of a folder are made again if one of its files changes, and a model that is refused stops the build.
mkdir -p "$room/gradle/models"
{ echo "apply plugin: 'base'"; sed --quiet '/^## Gradle/,/^## /s/^    //p' docs/builds.md; } > "$room/gradle/build.gradle"
trap 'gradle --stop > /dev/null 2>&1; rm -rf "$room"' EXIT
build() { gradle --offline --project-dir "$room/gradle" assemble > "$room/log" 2>&1; }
for model in fixtures/network/{digits,convolutional}/model.onnx; do
    cp "$model" "$room/gradle/models/a model.onnx"
    build || fail "$(cat "$room/log")"
    onnx2ncnn --quiet "$model" "$room/net.param" "$room/net.bin"
    cmp "$room/net.bin" "$room/gradle/build/nets/a model.ncnn.bin"
    build && grep --quiet UP-TO-DATE "$room/log" || fail 'models that did not change were converted again'
done
cp fixtures/refused/pooling_that_skips_elements_of_a_free_axis/model.onnx "$room/gradle/models/refused.onnx"
build && fail 'a model that is refused passes'
grep --quiet 'codes: E' "$room/log" || fail "$(cat "$room/log")"

# pre-commit: a model is refused by its reason.
cd "$room"
# The hook alone, as a repository that does not depend on how this one was fetched.
git init --quiet hooks
cp "$root/.pre-commit-hooks.yaml" hooks
git -C hooks add .
git -C hooks -c user.name=test -c user.email=test@localhost commit --quiet --message hooks
git init --quiet repository
cd repository
cp "$root/fixtures/network/digits/model.onnx" 'a model.onnx'
git add .
hook() { pre-commit try-repo "$room/hooks" onnx2ncnn --all-files 2>&1; }
hook > "$room/log" || fail "$(cat "$room/log")"
cp "$root/fixtures/refused/pooling_that_skips_elements_of_a_free_axis/model.onnx" refused.onnx
git add .
hook > "$room/log" && fail 'a model that is refused passes'
grep --quiet 'codes: E' "$room/log" || fail "$(cat "$room/log")"
