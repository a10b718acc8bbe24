
int main(int argc, char** argv)
{
    const std::vector<float> tokens = tokens_of(argc, argv);
    ncnn::Net net;
    load(net);
    const int count = (int)tokens.size(), total = count;
    Mats given;
{{given}}
    const Mats results = run(net, given);
{{tail}}
    return 0;
}
