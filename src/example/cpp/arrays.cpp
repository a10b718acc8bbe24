
// The float32 numbers of a file.
static std::vector<float> read_numbers(const std::string& path)
{
    FILE* file = fopen(path.c_str(), "rb");
    if (!file)
        fail(path + " cannot be read");
    std::vector<float> all;
    float value;
    while (fread(&value, sizeof(value), 1, file) == 1)
        all.push_back(value);
    fclose(file);
    return all;
}
