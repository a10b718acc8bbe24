
int main(int argc, char** argv)
{
    std::vector<float> tokens = tokens_of(argc, argv);
    ncnn::Net net;
    load(net);
    Mats states;
{{states}}
    int total = 0;
    for (int step = 0; step < STEPS; step++)
    {
        const int count = (int)tokens.size();
        total = {{total}};
        Mats given = states;
{{given}}
        const Mats results = run(net, given);
{{continued}}
        const ncnn::Mat& logits = results.at(LOGITS);
        const std::vector<float> all = elements(logits);
        const size_t row = std::min((size_t)count, all.size() / logits.w) - 1;
        const float* scores = &all[row * logits.w];
        const int best = (int)(std::max_element(scores, scores + logits.w) - scores);
        {{next}}
        printf("%d ", best);
        fflush(stdout);
    }
    printf("\n");
    return 0;
}
