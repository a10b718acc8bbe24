#!/usr/bin/env bash
# Runs programs of --example in Kotlin, and the parts of examples/android that need no Android, on this machine's Java.
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
rm -rf "$room/cases" "$room/app"
mkdir -p "$room"
cargo build --quiet
"$ncnn/python/bin/python" tests/android/cases.py target/debug/onnx2ncnn "$room/cases"
# The app has what the command of its README writes.
target/debug/onnx2ncnn --quiet fixtures/network/digits/model.onnx "$room/app/digits.param" "$room/app/digits.bin" --example "$room/app/Digits.kt"
diff --recursive --exclude='digits.*' --exclude=ncnn_net.cpp --exclude=CMakeLists.txt "$room/app" "$app/kotlin/onnx2ncnn"
java=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
JAVA_HOME=$java "$ncnn/venv/bin/cmake" -S "$app/cpp" -B "$room/native" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$ncnn" > "$room/log"
"$ncnn/venv/bin/cmake" --build "$room/native" >> "$room/log"
# MainActivity needs Android.
# Java's first compiler alone: the second takes longer than it saves here.
JAVA_OPTS=-XX:TieredStopAtLevel=1 kotlinc -nowarn "$room"/cases/*.kt "$app/kotlin/onnx2ncnn/Digits.kt" tests/android/Test.kt tests/android/Canvas.kt -include-runtime -d "$room/test.jar"
run() { java -Djava.awt.headless=true -Djava.library.path="$room/native" -cp "$room/test.jar" "$@"; }
run onnx2ncnn.CasesKt "$room/cases"
run TestKt "$room/app/digits.param" "$room/app/digits.bin" fixtures/network/digits.png three
