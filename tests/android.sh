#!/usr/bin/env bash
# Runs the parts of examples/android that need no Android on this machine's Java: the native library, and the classes over it.
set -euo pipefail
cd "$(dirname "$0")/.."
app=examples/android/app/src/main
room=target/android
ncnn=$PWD/target/ncnn

tests/programs.sh install
if ! command -v kotlinc > /dev/null || ! command -v javac > /dev/null; then
    apt-get update --quiet=2
    apt-get install --quiet=2 --no-install-recommends kotlin openjdk-17-jdk-headless
fi
mkdir -p "$room"
cargo build --quiet
target/debug/onnx2ncnn --quiet fixtures/network/digits/model.onnx "$room/digits.param" "$room/digits.bin"
java=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
JAVA_HOME=$java "$ncnn/venv/bin/cmake" -S "$app/cpp" -B "$room/native" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$ncnn" > "$room/log"
"$ncnn/venv/bin/cmake" --build "$room/native" >> "$room/log"
# MainActivity needs Android.
kotlinc -nowarn "$app"/kotlin/org/example/digits/{Net,Digits}.kt tests/android/Test.kt -include-runtime -d "$room/test.jar"
java -Djava.awt.headless=true -Djava.library.path="$room/native" -cp "$room/test.jar" TestKt \
    "$room/digits.param" "$room/digits.bin" fixtures/network/digits.png three
