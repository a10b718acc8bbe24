
// All boxes: of rows of x, y, w, h, whether there is an object, a score for each class, and further numbers.
static std::vector<Box> candidates(const Mats& results)
{
    const ncnn::Mat& mat = results.at(BOXES);
    const std::vector<float> all = elements(mat);
    std::vector<Box> boxes;
    for (size_t at = 0; at < all.size(); at += mat.w)
        boxes.push_back(box_of(&all[at], &all[at + 5], 1, all[at + 4]));
    return boxes;
}
