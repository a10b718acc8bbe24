#!/bin/sh
# Installs onnx2ncnn @VERSION@ to ~/.local/bin, or to the folder BIN, if the archive has its checksum.
set -eu
case $(uname -s)-$(uname -m) in
@ARCHIVES@
*)
    echo "no archive was built for $(uname -s) on $(uname -m)" >&2
    exit 1
    ;;
esac
bin=${BIN:-$HOME/.local/bin}
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
if command -v curl > /dev/null; then
    curl --fail --silent --show-error --location --output "$room/archive" "$url"
else
    wget --quiet --output-document "$room/archive" "$url"
fi
if command -v sha256sum > /dev/null; then
    found=$(sha256sum < "$room/archive")
else
    found=$(shasum -a 256 < "$room/archive")
fi
[ "${found%% *}" = "$sum" ] || {
    echo "$url has another checksum than $sum: ${found%% *}" >&2
    exit 1
}
tar -xzf "$room/archive" -C "$room"
mkdir -p "$bin"
# The name is replaced at once: a running program keeps its file.
mv "$room"/onnx2ncnn-*/onnx2ncnn "$bin/.onnx2ncnn.new"
mv "$bin/.onnx2ncnn.new" "$bin/onnx2ncnn"
"$bin/onnx2ncnn" --version
case :$PATH: in
*:"$bin":*) ;;
*) echo "$bin is not in PATH" >&2 ;;
esac
