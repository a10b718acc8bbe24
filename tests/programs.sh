#!/usr/bin/env bash
# Compiles programs of --example in C++ and runs them, and that of `verify --device`. The first run builds ncnn from its source package, into target/ncnn.
set -euo pipefail
cd "$(dirname "$0")/.."
ncnn=$PWD/target/ncnn
# The release of tests/requirements.txt.
source=https://files.pythonhosted.org/packages/b7/50/32b5172afe7d3e0dce410b7d8f4a5b7b84b942a0d69affbaedf669de52bc/ncnn-1.0.20261020.tar.gz
sum=ad8cdd63e9755cfa8e23b9b6d9ce46156077d80298a89e7c3ba325ffccfca200

install() {
    rm -rf "$ncnn"
    mkdir -p "$ncnn"
    python3 -m venv "$ncnn/venv"
    "$ncnn/venv/bin/python" -m pip install --quiet --disable-pip-version-check cmake ninja
    # By its address: the source package calls its version by the date of the day, which pip compares with the version that is asked for.
    "$ncnn/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$ncnn" "$source#sha256=$sum"
    tar --extract --file "$ncnn"/ncnn-*.tar.gz --directory "$ncnn"
    PATH=$ncnn/venv/bin:$PATH
    cmake -S "$ncnn"/ncnn-*/ -B "$ncnn/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$ncnn" -DNCNN_VULKAN=OFF \
        -DNCNN_RUNTIME_CPU=OFF -DNCNN_AVX=OFF -DNCNN_AVX2=OFF -DNCNN_FMA=OFF -DNCNN_F16C=OFF -DNCNN_XOP=OFF -DNCNN_AVX512=OFF -DNCNN_PYTHON=OFF -DNCNN_BUILD_TOOLS=OFF -DNCNN_BUILD_EXAMPLES=OFF -DNCNN_BUILD_BENCHMARK=OFF \
        -DNCNN_BUILD_TESTS=OFF -DNCNN_SIMPLEOCV=ON > "$ncnn/build.log"
    cmake --build "$ncnn/build" --target install >> "$ncnn/build.log"
    touch "$ncnn/complete"
}

[ -e "$ncnn/complete" ] || install
python3 -m venv "$ncnn/python"
"$ncnn/python/bin/python" -m pip install --quiet --disable-pip-version-check pillow $(grep -E '^(numpy|onnx|ml_dtypes|protobuf|typing_extensions)==' tests/requirements.txt)
# `programs.sh install` only installs ncnn and the environment that makes the models.
[ "${1:-}" != install ] || exit 0
cargo build --quiet
"$ncnn/python/bin/python" tests/programs/run.py target/debug/onnx2ncnn target/ncnn/programs "$ncnn"
g++ -std=c++11 -Wall -Wextra -Werror -O1 src/cli/runner.cpp "-I$ncnn/include" "$ncnn/lib/libncnn.a" -fopenmp -o "$ncnn/runner"
for environment in tests/.venv/*/bin/python; do
    python3 tests/programs/device.py target/debug/onnx2ncnn "$PWD/$environment" target/ncnn/device "$ncnn/runner"
    break
done
