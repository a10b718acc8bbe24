// Runs {{model}} in ncnn.
//
//     g++ -O2 {{file}} -lncnn -fopenmp -o run
//     ./run {{usage}}
//
{{ports}}
//
// Written by {{generator}} for this model. It is yours to change.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <ncnn/net.h>
{{includes}}
typedef std::map<std::string, ncnn::Mat> Mats;
typedef std::vector<std::string> Names;

static const char* const PARAM = {{param}};
static const char* const BIN = {{bin}};
{{constants}}
// Ends the program.
static void fail(const std::string& reason)
{
    fprintf(stderr, "%s\n", reason.c_str());
    exit(1);
}

// Loads the net. Half precision is faster and less exact; it is off here, so that results are those of the model.
static void load(ncnn::Net& net)
{
    net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = false;
    net.opt.use_bf16_storage = false;
    if (net.load_param(PARAM) != 0 || net.load_model(BIN) != 0)
        fail(std::string(PARAM) + " and " + BIN + " do not load");
}

// The outputs by their names, for inputs by their names.
static Mats run(const ncnn::Net& net, const Mats& given)
{
    ncnn::Extractor extractor = net.create_extractor();
    for (const auto& input : given)
    {
        if (extractor.input(input.first.c_str(), input.second) != 0)
            fail("the net has no input " + input.first);
    }
    Mats results;
    for (const std::string& name : OUTPUTS)
    {
        // Type 1 leaves a cache in the layout of the runtime.
        const bool is_kept = std::find(KEPT.begin(), KEPT.end(), name) != KEPT.end();
        if (extractor.extract(name.c_str(), results[name], is_kept ? 1 : 0) != 0)
            fail(name + " cannot be computed: an input is missing, or has another shape");
    }
    return results;
}

// The elements of a Mat in their order, without gaps between channels.
static std::vector<float> elements(const ncnn::Mat& mat)
{
    std::vector<float> all;
    const size_t size = (size_t)mat.w * mat.h * mat.d;
    for (int c = 0; c < mat.c; c++)
    {
        const float* channel = mat.channel(c);
        all.insert(all.end(), channel, channel + size);
    }
    return all;
}
{{functions}}
{{main}}
