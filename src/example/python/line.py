
def read_picture(path):
    """The picture of a line of text in the height that the net reads, filled up on its right, and nothing."""
    pixels = np.asarray(Image.open(path).convert(MODE))
    height, width = pixels.shape[:2]
    w = min(WIDTH, max(1, round(width * HEIGHT / height)))
    mat = ncnn.Mat.from_pixels_resize(pixels, PIXELS, width, height, w, HEIGHT)
    mat.substract_mean_normalize(MEAN, NORM)
    # The border is 0 where the model reads it.
    wide = ncnn.Mat()
    ncnn.copy_make_border(mat, wide, 0, 0, 0, WIDTH - w, ncnn.BorderType.BORDER_CONSTANT, BORDER)
    return wide, None
