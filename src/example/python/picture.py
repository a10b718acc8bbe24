
def read_picture(path):
    """The picture in the size that the net reads, and nothing: its results have no places."""
    pixels = np.asarray(Image.open(path).convert(MODE))
    height, width = pixels.shape[:2]
    mat = ncnn.Mat.from_pixels_resize(pixels, PIXELS, width, height, WIDTH, HEIGHT)
    mat.substract_mean_normalize(MEAN, NORM)
    return mat, None
