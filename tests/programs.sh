#!/usr/bin/env bash
# Compiles programs of --example in C++ and runs them. The first run builds ncnn from its source package, into target/ncnn.
set -euo pipefail
cd "$(dirname "$0")/.."
ncnn=$PWD/target/ncnn

install() {
    rm -rf "$ncnn"
    mkdir -p "$ncnn"
    python3 -m venv "$ncnn/venv"
    "$ncnn/venv/bin/python" -m pip install --quiet --disable-pip-version-check cmake ninja
    "$ncnn/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary ncnn --dest "$ncnn" \
        "$(grep ^ncnn== tests/requirements.txt)"
    tar --extract --file "$ncnn"/ncnn-*.tar.gz --directory "$ncnn"
    PATH=$ncnn/venv/bin:$PATH
    cmake -S "$ncnn"/ncnn-*/ -B "$ncnn/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$ncnn" -DNCNN_VULKAN=OFF \
        -DNCNN_RUNTIME_CPU=OFF -DNCNN_PYTHON=OFF -DNCNN_BUILD_TOOLS=OFF -DNCNN_BUILD_EXAMPLES=OFF -DNCNN_BUILD_BENCHMARK=OFF \
        -DNCNN_BUILD_TESTS=OFF -DNCNN_SIMPLEOCV=ON > "$ncnn/build.log"
    cmake --build "$ncnn/build" --target install >> "$ncnn/build.log"
    touch "$ncnn/complete"
}

[ -e "$ncnn/complete" ] || install
cargo build --quiet
python3 -m venv "$ncnn/python"
"$ncnn/python/bin/python" -m pip install --quiet --disable-pip-version-check pillow $(grep -E '^(numpy|onnx|ml_dtypes|protobuf|typing_extensions)==' tests/requirements.txt)
"$ncnn/python/bin/python" tests/programs/run.py target/debug/onnx2ncnn target/ncnn/programs "$ncnn"
