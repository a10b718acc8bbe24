
// The float32 numbers of a file, or numbers with commas.
static std::vector<float> read_numbers(const std::string& text)
{
    std::vector<float> all;
    FILE* file = fopen(text.c_str(), "rb");
    if (file)
    {
        float value;
        while (fread(&value, sizeof(value), 1, file) == 1)
            all.push_back(value);
        fclose(file);
        return all;
    }
    for (size_t at = 0; at < text.size();)
    {
        char* end = 0;
        all.push_back(strtof(text.c_str() + at, &end));
        const size_t next = end - text.c_str();
        if (next == at || (next < text.size() && text[next] != ','))
            fail(text + " is neither a file nor numbers");
        at = next + 1;
    }
    return all;
}
