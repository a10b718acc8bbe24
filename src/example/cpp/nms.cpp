
static float area(const Box& box)
{
    return (box.right - box.left) * (box.bottom - box.top);
}

// The boxes above the threshold, the best first, without those that lie over a better one of their class.
static std::vector<Box> select(std::vector<Box> boxes, float threshold, float overlap)
{
    std::stable_sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) { return a.score > b.score; });
    std::vector<Box> kept;
    for (const Box& box : boxes)
    {
        if (box.score < threshold)
            break;
        bool is_hidden = false;
        for (const Box& better : kept)
        {
            const float w = std::min(box.right, better.right) - std::max(box.left, better.left);
            const float h = std::min(box.bottom, better.bottom) - std::max(box.top, better.top);
            const float shared = std::max(w, 0.f) * std::max(h, 0.f);
            const float ratio = shared / std::max(area(box) + area(better) - shared, 1e-9f);
            is_hidden = is_hidden || (box.label == better.label && ratio > overlap);
        }
        if (!is_hidden)
            kept.push_back(box);
    }
    return kept;
}

// Prints boxes in the picture that was read.
static void print_boxes(const std::vector<Box>& boxes, const Place& place)
{
    for (const Box& box : boxes)
    {
        const std::string name = box.label < (int)NAMES.size() ? NAMES[box.label] : std::to_string(box.label);
        const float left = (box.left - place.left) / place.scale, top = (box.top - place.top) / place.scale;
        const float right = (box.right - place.left) / place.scale, bottom = (box.bottom - place.top) / place.scale;
        printf("%s  %.3f  %.1f %.1f %.1f %.1f\n", name.c_str(), box.score, left, top, right, bottom);
    }
}
