
// The picture in the size that the net reads.
static ncnn::Mat read_picture(const char* path, Place& place)
{
    const cv::Mat pixels = open_picture(path);
    ncnn::Mat mat = ncnn::Mat::from_pixels_resize(pixels.data, PIXELS, pixels.cols, pixels.rows, WIDTH, HEIGHT);
    mat.substract_mean_normalize(MEAN, NORM);
    place = Place{1.f, 0, 0};
    return mat;
}
