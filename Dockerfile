# The command alone: docker run --rm --volume .:/models onnx2ncnn model.onnx
FROM rust:1.95-bookworm AS build
WORKDIR /source
RUN cargo install --locked cargo-auditable
COPY . .
# The list of crates is in the program: `cargo audit bin onnx2ncnn` reads it.
RUN cargo auditable build --release --locked && target/release/onnx2ncnn --version

FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="onnx2ncnn" \
      org.opencontainers.image.description="Converts ONNX models to ncnn's .param and .bin" \
      org.opencontainers.image.licenses="BSD-3-Clause"
COPY --from=build /source/target/release/onnx2ncnn /usr/local/bin/onnx2ncnn
COPY --from=build /source/LICENSE /usr/share/doc/onnx2ncnn/
# Files that are written belong to the user of --user, or to this one.
USER 1000:1000
WORKDIR /models
ENTRYPOINT ["onnx2ncnn"]
CMD ["--help"]
