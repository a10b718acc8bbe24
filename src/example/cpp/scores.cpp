
// Prints the most probable classes, each with its probability.
static void print_best(const std::vector<float>& scores, size_t count)
{
    std::vector<size_t> order(scores.size());
    for (size_t i = 0; i < order.size(); i++)
        order[i] = i;
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    for (size_t i = 0; i < std::min(count, order.size()); i++)
    {
        const size_t index = order[i];
        const std::string name = index < NAMES.size() ? NAMES[index] : std::to_string(index);
        printf("%s  %.3f\n", name.c_str(), scores[index]);
    }
}
