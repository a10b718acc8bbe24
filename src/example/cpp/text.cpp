
// The text of rows of scores: the best of each row, without repetitions and blanks, which have the index BLANK.
static std::string read_text(const ncnn::Mat& mat)
{
    const std::vector<float> all = elements(mat);
    std::string text;
    int before = -1;
    for (size_t at = 0; at < all.size(); at += mat.w)
    {
        const int best = (int)(std::max_element(&all[at], &all[at] + mat.w) - &all[at]);
        if (best != before && best != BLANK)
            text += best < (int)ALPHABET.size() ? ALPHABET[best] : "<" + std::to_string(best) + ">";
        before = best;
    }
    return text;
}
