
// All boxes: of rows of left, top, right, bottom, score, class, and further numbers.
static std::vector<Box> candidates(const Mats& results)
{
    const ncnn::Mat& mat = results.at(BOXES);
    const std::vector<float> all = elements(mat);
    std::vector<Box> boxes;
    for (size_t at = 0; at < all.size(); at += mat.w)
    {
        const float* row = &all[at];
        boxes.push_back(Box{row[0], row[1], row[2], row[3], (int)row[5], row[4]});
    }
    return boxes;
}
