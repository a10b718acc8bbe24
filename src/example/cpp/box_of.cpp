
// The box of a centre and a size, with the best of its scores.
static Box box_of(const float* centre, const float* scores, size_t step, float factor)
{
    Box box;
    const float x = centre[0], y = centre[step], w = centre[2 * step], h = centre[3 * step];
    box.left = x - w / 2, box.top = y - h / 2, box.right = x + w / 2, box.bottom = y + h / 2;
    box.label = 0;
    for (int i = 1; i < CLASSES; i++)
    {
        if (scores[i * step] > scores[box.label * step])
            box.label = i;
    }
    box.score = scores[box.label * step] * factor;
    return box;
}
