
int main(int argc, char** argv)
{
    // Inputs that are not given are zeros; a file with the elements of several calls makes as many.
    std::map<std::string, std::vector<float> > files;
    for (int i = 1; i < argc; i++)
    {
        const std::string word = argv[i];
        const size_t at = word.find('=');
        if (at == std::string::npos || !SHAPES.count(word.substr(0, at)))
            fail("usage: NAME=VALUE..., each a file of float32 numbers, or numbers with commas");
        files[word.substr(0, at)] = read_numbers(word.substr(at + 1));
    }
    std::map<std::string, std::vector<int> > shapes = SHAPES;
    for (auto& shape : shapes)
    {
        size_t count = 1;
        for (int size : shape.second)
            count *= std::max(size, 1);
        for (int& size : shape.second)
        {
            if (size < 0)
                size = (int)(files[shape.first].size() / count);
            if (size == 0)
                fail(shape.first + " is not given");
        }
    }
    ncnn::Net net;
    load(net);
    Mats states;
{{states}}
    size_t steps = 1;
    for (const auto& file : files)
        steps = std::max(steps, file.second.size() / count_of(shapes.at(file.first)));
    for (size_t step = 0; step < steps; step++)
    {
        Mats given = states;
        for (const auto& shape : shapes)
        {
            const size_t count = count_of(shape.second);
            const bool is_integer = std::find(INTEGERS.begin(), INTEGERS.end(), shape.first) != INTEGERS.end();
            std::vector<float>& all = files[shape.first];
            all.resize(std::max(all.size(), count), 0.f);
            const size_t first = std::min(step, all.size() / count - 1) * count;
            const std::vector<float> values(all.begin() + first, all.begin() + first + count);
            given[shape.first] = filled(shape.second, values, is_integer);
        }
        const Mats results = run(net, given);
{{continued}}
{{tail}}
    }
    return 0;
}
