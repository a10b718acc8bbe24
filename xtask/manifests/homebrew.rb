# Installs by a formula as Homebrew does, into an empty folder: homebrew.rb FORMULA.
require "digest"
require "net/http"
require "pathname"
require "fileutils"
require "tmpdir"

# A folder of the cellar.
class Pathname
  def install(*sources)
    mkpath
    sources.flatten.each do |source|
      pairs = source.is_a?(Hash) ? source.to_a : [[source, File.basename(source)]]
      pairs.each { |from, name| FileUtils.mv(from, self / name) }
    end
  end
end

class Formula
  class << self
    attr_reader :address, :checksum, :check
    %i[desc homepage license].each { |name| define_method(name) { |text| raise name.to_s if text.empty? } }

    def version(text = @version) = @version = text
    def url(text) = @address = text
    def sha256(text) = @checksum = text
    def test(&block) = @check = block
    def on_linux = yield
    def on_intel = yield
    def on_macos; end
    def on_arm; end
  end

  PLACES = { bin: "bin", lib: "lib", include: "include", man1: "share/man/man1", bash_completion: "etc/bash_completion.d",
             zsh_completion: "share/zsh/site-functions", fish_completion: "share/fish/vendor_completions.d" }.freeze
  PLACES.each { |name, place| define_method(name) { @cellar / place } }

  def initialize(cellar) = @cellar = Pathname(cellar)
  def version = self.class.version
  def shell_output(line) = `#{line}`
  def assert_match(text, found) = (raise found unless found.include?(text))
end

load ARGV.fetch(0)
archive = Net::HTTP.get(URI(Onnx2ncnn.address))
raise "another checksum" unless Digest::SHA256.hexdigest(archive) == Onnx2ncnn.checksum

Dir.mktmpdir do |room|
  File.binwrite("#{room}/archive", archive)
  system("tar", "-xzf", "#{room}/archive", "-C", room, exception: true)
  Dir.chdir(Dir["#{room}/onnx2ncnn-*"].first)
  formula = Onnx2ncnn.new("#{room}/cellar")
  formula.install
  formula.instance_eval(&Onnx2ncnn.check)
  empty = Formula::PLACES.values.reject { |place| Dir.exist?("#{room}/cellar/#{place}") && !Dir.empty?("#{room}/cellar/#{place}") }
  raise "nothing in #{empty}" unless empty.empty?
end
