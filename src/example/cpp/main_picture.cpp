
int main(int argc, char** argv)
{
    if (argc != 2)
        fail(std::string("usage: ") + argv[0] + " PICTURE");
    ncnn::Net net;
    load(net);
    Place place;
    const ncnn::Mat picture = read_picture(argv[1], place);
    Mats given;
{{given}}
    const Mats results = run(net, given);
{{tail}}
    return 0;
}
