
// Where the picture lies in the one that the net reads.
struct Place
{
    float scale;
    int left;
    int top;
};

static cv::Mat open_picture(const char* path)
{
    cv::Mat pixels = cv::imread(path, CHANNELS == 1 ? 0 : 1);
    if (pixels.empty())
        fail(std::string(path) + " cannot be read");
    return pixels;
}
