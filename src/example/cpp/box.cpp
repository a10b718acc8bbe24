
struct Box
{
    float left, top, right, bottom;
    int label;
    float score;
};
