// Runs a converted decoder from token ids to token ids: greedy, from an empty cache that the runtime keeps.
//
//     onnx2ncnn model.onnx net.param net.bin --kv-cache
//     g++ -O2 decoder.cpp -lncnn -fopenmp -o decoder
//     ./decoder net.param net.bin 32 5 17 3
//
// The model has the inputs input_ids, and where it needs them attention_mask and position_ids, and the output logits. The
// caches are found by the layers that keep them: their last two bottoms and tops.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <ncnn/layer.h>
#include <ncnn/net.h>

struct Decoder
{
    ncnn::Net net;
    // The blobs of the caches, before and after a call, and the caches themselves.
    std::vector<int> past;
    std::vector<int> present;
    std::vector<ncnn::Mat> caches;
    int length = 0;

    bool load(const char* param, const char* bin)
    {
        // Half precision is faster and less exact.
        net.opt.use_fp16_packed = net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = false;
        if (net.load_param(param) != 0 || net.load_model(bin) != 0)
            return false;
        for (const ncnn::Layer* layer : net.layers())
        {
            if (layer->type != "SDPA" || layer->tops.size() != 3)
                continue;
            past.insert(past.end(), layer->bottoms.end() - 2, layer->bottoms.end());
            present.insert(present.end(), layer->tops.end() - 2, layer->tops.end());
        }
        return !past.empty();
    }

    bool has_input(const char* name) const
    {
        const std::vector<const char*>& names = net.input_names();
        return std::any_of(names.begin(), names.end(), [&](const char* other) { return std::string(other) == name; });
    }

    // Appends tokens to the caches, and returns the most likely next one; -1 if the net fails.
    int step(const std::vector<int>& tokens)
    {
        const int count = (int)tokens.size();
        length += count;
        ncnn::Mat ids(count), positions(count), seen(length), ones(length);
        for (int i = 0; i < count; i++)
        {
            ((int*)ids)[i] = tokens[i];
            ((int*)positions)[i] = length - count + i;
        }
        for (int i = 0; i < length; i++)
            ((int*)seen)[i] = 1;
        ones.fill(1.f);

        ncnn::Extractor extractor = net.create_extractor();
        extractor.input("input_ids", ids);
        // The table that onnx2ncnn prints marks integers; an input of another type needs floats.
        if (has_input("position_ids"))
            extractor.input("position_ids", positions);
        if (has_input("attention_mask"))
            extractor.input("attention_mask", seen);
        // Of nets whose other inputs do not tell the length of the caches.
        if (has_input("kv_length"))
            extractor.input("kv_length", ones);
        // The first call sets no caches.
        for (size_t i = 0; i < caches.size(); i++)
            extractor.input(past[i], caches[i]);

        ncnn::Mat logits;
        if (extractor.extract("logits", logits) != 0)
            return -1;
        caches.resize(present.size());
        for (size_t i = 0; i < present.size(); i++)
        {
            // Type 1 leaves a Mat in the layout of the runtime.
            if (extractor.extract(present[i], caches[i], 1) != 0)
                return -1;
        }
        const float* last = logits.row(logits.h - 1);
        return (int)(std::max_element(last, last + logits.w) - last);
    }
};

int main(int argc, char** argv)
{
    if (argc < 5)
    {
        fprintf(stderr, "usage: %s net.param net.bin STEPS TOKEN...\n", argv[0]);
        return 2;
    }
    Decoder decoder;
    if (!decoder.load(argv[1], argv[2]))
    {
        fprintf(stderr, "the net does not load, or the runtime keeps no cache of it\n");
        return 1;
    }
    std::vector<int> tokens;
    for (int i = 4; i < argc; i++)
        tokens.push_back(atoi(argv[i]));
    for (int i = 0; i < atoi(argv[3]); i++)
    {
        const int next = decoder.step(tokens);
        if (next < 0)
        {
            fprintf(stderr, "the net fails\n");
            return 1;
        }
        printf(i == 0 ? "%d" : " %d", next);
        tokens.assign(1, next);
    }
    printf("\n");
    return 0;
}
