
// The picture inside a gray border, without distortion.
static ncnn::Mat read_picture(const char* path, Place& place)
{
    const cv::Mat pixels = open_picture(path);
    const float scale = std::min((float)WIDTH / pixels.cols, (float)HEIGHT / pixels.rows);
    const int w = std::max(1, (int)std::round(pixels.cols * scale));
    const int h = std::max(1, (int)std::round(pixels.rows * scale));
    const int left = (WIDTH - w) / 2, top = (HEIGHT - h) / 2;
    const ncnn::Mat inner = ncnn::Mat::from_pixels_resize(pixels.data, PIXELS, pixels.cols, pixels.rows, w, h);
    ncnn::Mat mat;
    ncnn::copy_make_border(inner, mat, top, HEIGHT - h - top, left, WIDTH - w - left, ncnn::BORDER_CONSTANT, 114.f);
    mat.substract_mean_normalize(MEAN, NORM);
    place = Place{scale, left, top};
    return mat;
}
