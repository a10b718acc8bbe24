#!/usr/bin/env bash
# The way of a new user, timed, without a step by hand: a clone, the first command of README.md, and the programs of --example in Python and C++.
# Needs git, cargo, python3 with venv, a C++ compiler, and pip's registry for ncnn. The first run builds ncnn for C++, into target/ncnn.
#
# usage: tests/journey.sh [FOLDER]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
room=$(mktemp -d "${1:-${TMPDIR:-/tmp}}/journey.XXXXXX")
trap 'rm -rf "$room"' EXIT
start=$SECONDS

step() {
    local before=$SECONDS
    "$2" > "$room/log" 2>&1 || { cat "$room/log"; echo "failed: $1"; exit 1; }
    printf '%4d s  %s\n' $((SECONDS - before)) "$1"
}

# A line of README.md, by its beginning, with the files in the room.
line() {
    local found
    found=$(grep -m1 "^    $1" README.md) || { echo "README.md has no line that begins with \"$1\""; return 1; }
    echo "${found//\/tmp/$room}"
}

clone() { git clone --quiet "$root" "$room/onnx2ncnn"; }
convert() { eval "$(line 'cargo run --release')"; }

packages() {
    python3 -m venv "$room/venv"
    PATH="$room/venv/bin:$PATH"
    eval "$(line 'pip install ncnn numpy') --quiet --disable-pip-version-check"
}

in_python() {
    PATH="$room/venv/bin:$PATH"
    eval "$(line 'python3 ')" | tee "$room/python.txt"
    grep -q '^three  1.000$' "$room/python.txt"
}

# The library for C++: what a user of C++ has.
library() { "$root/tests/programs.sh" install; }

in_cpp() {
    ./target/release/onnx2ncnn fixtures/network/digits/model.onnx "$room/digits.param" "$room/digits.bin" --example "$room/digits.cpp" --quiet
    local picture=$PWD/fixtures/network/digits.png
    cd "$room"
    g++ -O2 digits.cpp -I"$root/target/ncnn/include" "$root"/target/ncnn/lib*/libncnn.a -fopenmp -o digits
    ./digits "$picture" | tee cpp.txt
    grep -q '^three  1.000$' cpp.txt
}

step "git clone" clone
cd "$room/onnx2ncnn"
step "README.md: cargo run ... --example digits.py" convert
step "README.md: pip install" packages
step "README.md: python3 digits.py" in_python
step "ncnn for C++" library
step "--example digits.cpp, compiled and run" in_cpp
printf '%4d s  in all\n' $((SECONDS - start))
