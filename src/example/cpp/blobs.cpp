
// A Mat of these sizes, the outermost first.
static ncnn::Mat blob(const std::vector<int>& sizes)
{
    switch (sizes.size())
    {
    case 1:
        return ncnn::Mat(sizes[0]);
    case 2:
        return ncnn::Mat(sizes[1], sizes[0]);
    case 3:
        return ncnn::Mat(sizes[2], sizes[1], sizes[0]);
    default:
        return ncnn::Mat(sizes[3], sizes[2], sizes[1], sizes[0]);
    }
}

// Gives a Mat its elements, one after the other. Integers are those of 32 bits.
static ncnn::Mat filled(const std::vector<int>& sizes, const std::vector<float>& values, bool is_integer)
{
    ncnn::Mat mat = blob(sizes);
    const size_t size = (size_t)mat.w * mat.h * mat.d;
    for (size_t i = 0; i < size * mat.c; i++)
    {
        float* place = (float*)mat.channel((int)(i / size)) + i % size;
        const int integer = (int)values[i];
        memcpy(place, is_integer ? (const void*)&integer : (const void*)&values[i], sizeof(float));
    }
    return mat;
}

static size_t count_of(const std::vector<int>& sizes)
{
    size_t count = 1;
    for (int size : sizes)
        count *= size;
    return count;
}

// A Mat with the same number everywhere.
static ncnn::Mat constant(const std::vector<int>& sizes, float value, bool is_integer)
{
    return filled(sizes, std::vector<float>(count_of(sizes), value), is_integer);
}
