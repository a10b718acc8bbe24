
// Probabilities of scores.
static std::vector<float> softmax(std::vector<float> scores)
{
    const float most = *std::max_element(scores.begin(), scores.end());
    float sum = 0.f;
    for (float& score : scores)
        sum += score = std::exp(score - most);
    for (float& score : scores)
        score /= sum;
    return scores;
}
