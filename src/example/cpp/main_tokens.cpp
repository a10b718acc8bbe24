
int main(int argc, char** argv)
{
    std::vector<float> tokens;
    for (int i = 1; i < argc; i++)
        tokens.push_back((float)atoi(argv[i]));
    if (tokens.empty())
        fail(std::string("usage: ") + argv[0] + " TOKEN...");
    ncnn::Net net;
    load(net);
    const int count = (int)tokens.size(), total = count;
    Mats given;
{{given}}
    const Mats results = run(net, given);
{{tail}}
    return 0;
}
