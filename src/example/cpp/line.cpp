
// The picture of a line of text in the height that the net reads, filled up on its right.
static ncnn::Mat read_picture(const char* path, Place& place)
{
    const cv::Mat pixels = open_picture(path);
    const int w = std::min(WIDTH, std::max(1, (int)std::round((float)pixels.cols * HEIGHT / pixels.rows)));
    ncnn::Mat mat = ncnn::Mat::from_pixels_resize(pixels.data, PIXELS, pixels.cols, pixels.rows, w, HEIGHT);
    mat.substract_mean_normalize(MEAN, NORM);
    // The border is 0 where the model reads it.
    ncnn::Mat wide;
    ncnn::copy_make_border(mat, wide, 0, 0, 0, WIDTH - w, ncnn::BORDER_CONSTANT, BORDER);
    place = Place{1.f, 0, 0};
    return wide;
}
