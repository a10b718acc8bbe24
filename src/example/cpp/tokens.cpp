
// The tokens of the command line.
static std::vector<float> tokens_of(int argc, char** argv)
{
    std::vector<float> tokens;
    for (int i = 1; i < argc; i++)
        tokens.push_back((float)atoi(argv[i]));
    if (tokens.empty())
        fail(std::string("usage: ") + argv[0] + " TOKEN...");
    return tokens;
}

// Numbers from first on, with a step of 0 or 1.
static std::vector<float> numbers(int count, int first, int step)
{
    std::vector<float> all(count);
    for (int i = 0; i < count; i++)
        all[i] = (float)(first + i * step);
    return all;
}

// Tokens as the elements of an input, or a list of numbers that is filled up with zeros or cut.
static std::vector<float> fitted(std::vector<float> values, size_t count)
{
    values.resize(count, 0.f);
    return values;
}
