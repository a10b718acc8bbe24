#!/usr/bin/env bash
# Runs nets of the fixtures in ncnn on an emulated ARM64 processor, which computes in float16 by default, and compares the results with the
# expected ones; and nets of activations at extreme floats in float32; and nets in the program of `verify --device`. The first run fetches the emulator, the libraries and the Python packages of ARM64 into target/arm64.
set -euo pipefail
cd "$(dirname "$0")/.."
arm=$PWD/target/arm64

install() {
    command -v qemu-aarch64-static > /dev/null || {
        apt-get update --quiet=2
        apt-get install --quiet=2 --no-install-recommends qemu-user-static
    }
    rm -rf "$arm"
    mkdir -p "$arm"/{apt/lists/partial,apt/archives/partial,apt/parts,packages,wheels,root/site}
    : > "$arm/apt/status"
    # The repository of this machine, with the packages of another architecture.
    local source
    source=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep --invert-match security | sort --unique | head -1)
    printf 'Types: deb\nURIs: %s\nSuites: bookworm\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' "$source" \
        > "$arm/apt/arm64.sources"
    local options=(
        -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o Dir::State="$arm/apt" -o Dir::State::lists="$arm/apt/lists"
        -o Dir::State::status="$arm/apt/status" -o Dir::Cache="$arm/apt" -o Dir::Etc::sourcelist="$arm/apt/arm64.sources"
        -o Dir::Etc::sourceparts="$arm/apt/parts"
    )
    apt-get "${options[@]}" update --quiet=2
    (
        cd "$arm/packages"
        # The interpreter, and what it and the wheels link to.
        apt-get "${options[@]}" download --quiet=2 python3.11 python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libc-bin \
            libgcc-s1 libstdc++6 libgomp1 libgfortran5 zlib1g libexpat1 libffi8 libssl3 libbz2-1.0 liblzma5 libcrypt1 libncursesw6 libtinfo6 \
            libreadline8 libsqlite3-0 libuuid1 libdb5.3 libnsl2 libtirpc3
        for package in *.deb; do dpkg --extract "$package" "$arm/root"; done
    )
    python3 -m pip download --quiet --disable-pip-version-check --only-binary :all: --no-deps --python-version 3.11 --dest "$arm/wheels" \
        --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 "$(grep ^ncnn== tests/requirements.txt)" numpy==1.26.4
    for wheel in "$arm"/wheels/*.whl; do python3 -m zipfile --extract "$wheel" "$arm/root/site"; done
    touch "$arm/complete"
}

# ncnn with few layers in the one variant for float16, of the source that `programs.sh` fetches.
install_ncnn() {
    local source layers kept='BinaryOp|Cast|Convolution|Crop|Flatten|Input|Packing|Padding|ReLU|Split'
    command -v aarch64-linux-gnu-g++ > /dev/null || {
        apt-get update --quiet=2
        apt-get install --quiet=2 --no-install-recommends g++-aarch64-linux-gnu
    }
    tests/programs.sh install
    source=$(echo "$PWD"/target/ncnn/ncnn-*/)
    mapfile -t layers < <(sed -nE 's/^ncnn_add_layer\((\w+).*/\1/p' "$source/src/CMakeLists.txt" | grep -vxE "$kept" | sed 's/.*/-DWITH_LAYER_\L&=OFF/')
    local options=(
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc
        -DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++ -DCMAKE_INSTALL_PREFIX="$arm/ncnn" -DNCNN_VULKAN=OFF -DNCNN_PYTHON=OFF
        -DNCNN_BUILD_TOOLS=OFF -DNCNN_BUILD_EXAMPLES=OFF -DNCNN_BUILD_BENCHMARK=OFF -DNCNN_BUILD_TESTS=OFF -DNCNN_PIXEL=OFF
        -DNCNN_INT8=OFF -DNCNN_WEIGHT_QUANT=OFF -DNCNN_RUNTIME_CPU=OFF -DNCNN_ARM82DOT=OFF -DNCNN_ARM82FP16FML=OFF
        -DNCNN_ARM84BF16=OFF -DNCNN_ARM84I8MM=OFF -DNCNN_ARM86SVE=OFF
    )
    cmake -S "$source" -B "$arm/build" "${options[@]}" "${layers[@]}" > "$arm/build.log"
    cmake --build "$arm/build" --target install --parallel 2 >> "$arm/build.log"
    touch "$arm/ncnn/complete"
}

[ -e "$arm/complete" ] || install
[ -e "$arm/ncnn/complete" ] || PATH=$PWD/target/ncnn/venv/bin:$PATH install_ncnn
cat > "$arm/python" << END
#!/bin/sh
exec env PYTHONPATH=$arm/root/site PYTHONHOME=/usr OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \\
    qemu-aarch64-static -cpu max,pauth-impdef=on -L $arm/root $arm/root/usr/bin/python3.11 "\$@"
END
chmod +x "$arm/python"
cargo build --quiet
# The environment of the other tests writes the cases of extreme floats.
rm -rf "$arm/elements"
for environment in tests/.venv/*/bin/python; do
    "$environment" tests/conformance/elements.py "$arm/elements"
    break
done
aarch64-linux-gnu-g++ -std=c++11 -Wall -Wextra -Werror -O1 -static src/cli/runner.cpp "-I$arm/ncnn/include" "$arm/ncnn/lib/libncnn.a" -fopenmp \
    -o "$arm/runner" 2> "$arm/runner.log"
python3 tests/programs/device.py target/debug/onnx2ncnn "$PWD/$environment" "$arm/device" \
    "qemu-aarch64-static -cpu max,pauth-impdef=on $arm/runner" half
python3 tests/phone/run.py target/debug/onnx2ncnn "$arm/python" "$arm/elements/extremes" "$@"
