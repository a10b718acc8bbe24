
// Prints shapes and magnitudes.
static void print_shapes(const Mats& results)
{
    for (const auto& result : results)
    {
        const ncnn::Mat& mat = result.second;
        if (std::find(KEPT.begin(), KEPT.end(), result.first) != KEPT.end())
            continue;
        const std::vector<float> all = elements(mat);
        const auto ends = std::minmax_element(all.begin(), all.end());
        printf("%s  w=%d h=%d d=%d c=%d  from %g to %g\n", result.first.c_str(), mat.w, mat.h, mat.d, mat.c, *ends.first, *ends.second);
    }
}
