
// All boxes: of two outputs. Boxes between 0 and 1 are parts of the picture.
static std::vector<Box> candidates(const Mats& results)
{
    const std::vector<float> corners = elements(results.at(BOXES)), scores = elements(results.at(SCORES));
    float most = 0.f;
    for (float x : corners)
        most = std::max(most, std::abs(x));
    const float w = most <= 2.f ? (float)WIDTH : 1.f, h = most <= 2.f ? (float)HEIGHT : 1.f;
    std::vector<Box> boxes;
    for (size_t i = 0; i < corners.size() / 4; i++)
    {
        const float* row = &corners[4 * i];
        const float* first = &scores[i * CLASSES];
        const int label = (int)(std::max_element(first, first + CLASSES) - first);
        boxes.push_back(Box{row[0] * w, row[1] * h, row[2] * w, row[3] * h, label, first[label]});
    }
    return boxes;
}
