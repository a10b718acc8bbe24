// Runs nets of ncnn for `onnx2ncnn verify --device`, which sends them with their inputs to standard input, and reads the results from
// standard output. Compile it with ncnn for the device, and copy it there.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include <ncnn/datareader.h>
#include <ncnn/net.h>
#if NCNN_VULKAN
#include <ncnn/gpu.h>
#endif

// A result of a run: the blob, whether it is a cache, which stays here, and its seconds in each run.
struct Result
{
    std::string name;
    bool is_kept;
    std::vector<double> seconds;
};

// Bytes of standard input, of which a net reads its weights.
class Weights : public ncnn::DataReader
{
public:
    explicit Weights(size_t bytes) : left(bytes), is_short(false) {}

    virtual size_t read(void* bytes, size_t count) const
    {
        is_short = is_short || count > left;
        count = std::min(count, left);
        std::cin.read(static_cast<char*>(bytes), count);
        left -= count;
        return std::cin.gcount();
    }

    mutable size_t left;
    mutable bool is_short;
};

// Releases before 2026 have no such option.
template<typename Option>
auto set_bf16_packed(Option& option, bool is_set, int) -> decltype(option.use_bf16_packed, void())
{
    option.use_bf16_packed = is_set;
}

template<typename Option>
void set_bf16_packed(Option&, bool, long) {}

// Sets the options of a net, reads it, and returns the word for what failed.
static const char* load(ncnn::Net& net, std::istream& words)
{
    size_t param_bytes = 0, bin_bytes = 0;
    int threads = 0;
    bool fp16 = false, bf16 = false, vulkan = false;
    words >> param_bytes >> bin_bytes >> threads >> fp16 >> bf16 >> vulkan;
    ncnn::Option& option = net.opt;
    option.num_threads = threads > 0 ? threads : option.num_threads;
    option.use_fp16_packed = option.use_fp16_storage = option.use_fp16_arithmetic = fp16;
    option.use_bf16_storage = bf16;
    set_bf16_packed(option, bf16, 0);
    option.use_vulkan_compute = vulkan;
    std::string param(param_bytes, '\0');
    std::cin.read(&param[0], param_bytes);
    const Weights weights(bin_bytes);
    const char* failed = NULL;
#if NCNN_VULKAN
    if (vulkan && ncnn::get_gpu_count() == 0)
        failed = "gpu";
#else
    if (vulkan)
        failed = "gpu";
#endif
    if (!failed && net.load_param_mem(param.c_str()) != 0)
        failed = "param";
    if (!failed && net.load_model(weights) != 0)
        failed = weights.is_short ? "short" : "bin";
    // `ignore` would wait for the byte after the last one.
    std::vector<char> dropped(weights.left);
    std::cin.read(dropped.data(), weights.left);
    return failed;
}

// The bytes of a channel without those that align the next one.
static size_t channel_bytes(const ncnn::Mat& mat)
{
    return static_cast<size_t>(mat.w) * mat.h * mat.d * mat.elemsize;
}

// Reads an array, whose sizes come from the outermost to the innermost.
static ncnn::Mat read_input(std::istream& words)
{
    int dims = 0;
    int size[4] = {1, 1, 1, 1};
    words >> dims;
    for (int i = 0; i < dims && i < 4; i++)
        words >> size[i];
    ncnn::Mat mat;
    if (dims == 1)
        mat.create(size[0]);
    else if (dims == 2)
        mat.create(size[1], size[0]);
    else if (dims == 3)
        mat.create(size[2], size[1], size[0]);
    else
        mat.create(size[3], size[2], size[1], size[0]);
    std::vector<char> dropped(mat.data ? 0 : channel_bytes(mat));
    for (int q = 0; q < mat.c; q++)
    {
        char* bytes = mat.data ? static_cast<char*>(mat.channel(q).data) : dropped.data();
        std::cin.read(bytes, channel_bytes(mat));
    }
    return mat;
}

static void write_result(int code, const Result& result, const ncnn::Mat& mat)
{
    std::cout << code << ' ' << result.seconds[result.seconds.size() / 2] << ' ' << mat.elemsize;
    if (mat.dims > 2)
        std::cout << ' ' << mat.c;
    if (mat.dims > 3)
        std::cout << ' ' << mat.d;
    if (mat.dims > 1)
        std::cout << ' ' << mat.h;
    std::cout << ' ' << mat.w << '\n';
    for (int q = 0; q < mat.c && mat.data; q++)
        std::cout.write(static_cast<const char*>(mat.channel(q).data), channel_bytes(mat));
}

static double seconds_since(std::chrono::steady_clock::time_point start)
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Runs a net several times, but not longer than two seconds, and writes the time, the results of the last run and their times.
static void run(const ncnn::Net& net, std::istream& words, const std::map<std::string, ncnn::Mat>& inputs, std::vector<Result>& results,
                std::map<std::string, ncnn::Mat>& kept)
{
    int times = 1;
    bool is_light = true;
    words >> times >> is_light;
    std::vector<double> seconds;
    std::vector<ncnn::Mat> mats(results.size());
    std::vector<int> codes(results.size());
    const std::chrono::steady_clock::time_point first = std::chrono::steady_clock::now();
    do
    {
        ncnn::Extractor extractor = net.create_extractor();
        extractor.set_light_mode(is_light);
        for (std::map<std::string, ncnn::Mat>::const_iterator it = inputs.begin(); it != inputs.end(); ++it)
            extractor.input(it->first.c_str(), it->second);
        const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
        double before = 0;
        for (size_t i = 0; i < results.size(); i++)
        {
            // As it is, which runs the layers; the time of its conversion does not count.
            codes[i] = extractor.extract(results[i].name.c_str(), mats[i], 1);
            const double after = seconds_since(start);
            results[i].seconds.push_back(after - before);
            before = after;
        }
        seconds.push_back(before);
        for (size_t i = 0; i < results.size(); i++)
            if (codes[i] == 0 && !results[i].is_kept)
                codes[i] = extractor.extract(results[i].name.c_str(), mats[i], 0);
    } while (static_cast<int>(seconds.size()) < times && seconds_since(first) < 2);
    std::sort(seconds.begin(), seconds.end());
    std::cout << "ok " << seconds[seconds.size() / 2] << '\n';
    for (size_t i = 0; i < results.size(); i++)
    {
        std::sort(results[i].seconds.begin(), results[i].seconds.end());
        if (results[i].is_kept)
            kept[results[i].name] = mats[i];
        write_result(codes[i], results[i], results[i].is_kept ? ncnn::Mat() : mats[i]);
    }
}

static void out_of_memory()
{
    fputs("std::bad_alloc\n", stderr);
    _Exit(137);
}

int main()
{
    std::set_new_handler(out_of_memory);
    std::ios::sync_with_stdio(false);
    std::cout << "onnx2ncnn runner 1 " << NCNN_VERSION_STRING << std::endl;
    std::unique_ptr<ncnn::Net> net(new ncnn::Net);
    std::map<std::string, ncnn::Mat> inputs, kept;
    std::vector<Result> results;
    std::string line, verb, name;
    while (std::getline(std::cin, line))
    {
        std::istringstream words(line);
        words >> verb;
        if (verb == "net")
        {
            kept.clear();
            net.reset(new ncnn::Net);
            const char* failed = load(*net, words);
            if (failed)
                std::cout << "failed " << failed << std::endl;
            else
                std::cout << "ok " << net->opt.num_threads << std::endl;
        }
        else if (verb == "input" && words >> name)
            inputs[name] = read_input(words);
        else if (verb == "cache" && words >> name && words >> verb)
            inputs[name] = kept[verb];
        else if ((verb == "output" || verb == "keep") && words >> name)
            results.push_back(Result{name, verb == "keep", {}});
        else if (verb == "run")
        {
            run(*net, words, inputs, results, kept);
            std::cout.flush();
            inputs.clear();
            results.clear();
        }
    }
}
