
// The same picture with the channels as its last axis.
static ncnn::Mat with_channels_last(const ncnn::Mat& mat)
{
    ncnn::Mat pixels(CHANNELS, mat.w, mat.h);
    for (int y = 0; y < mat.h; y++)
    {
        for (int x = 0; x < mat.w; x++)
        {
            for (int c = 0; c < CHANNELS; c++)
                pixels.channel(y).row(x)[c] = mat.channel(c).row(y)[x];
        }
    }
    return pixels;
}
