
// All boxes: of columns of x, y, w, h, a score for each class, and further numbers.
static std::vector<Box> candidates(const Mats& results)
{
    const ncnn::Mat& mat = results.at(BOXES);
    const std::vector<float> all = elements(mat);
    std::vector<Box> boxes;
    for (int i = 0; i < mat.w; i++)
        boxes.push_back(box_of(&all[i], &all[i + 4 * (size_t)mat.w], mat.w, 1.f));
    return boxes;
}
