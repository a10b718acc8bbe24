class Onnx2ncnn < Formula
  desc "Converts ONNX models to the .param and .bin of ncnn"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license "BSD-3-Clause"

@ARCHIVES@

  def install
    bin.install "onnx2ncnn"
    man1.install Dir["man/*"]
    include.install Dir["include/*"]
    lib.install Dir["lib/*"]
    bash_completion.install "completions/onnx2ncnn.bash" => "onnx2ncnn"
    zsh_completion.install "completions/_onnx2ncnn"
    fish_completion.install "completions/onnx2ncnn.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/onnx2ncnn --version")
  end
end
