
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
