
def read_picture(path):
    """The picture inside a gray border, without distortion, and its place: scale, left and top."""
    pixels = np.asarray(Image.open(path).convert(MODE))
    height, width = pixels.shape[:2]
    scale = min(WIDTH / width, HEIGHT / height)
    w, h = max(1, round(width * scale)), max(1, round(height * scale))
    left, top = (WIDTH - w) // 2, (HEIGHT - h) // 2
    inner, mat = ncnn.Mat.from_pixels_resize(pixels, PIXELS, width, height, w, h), ncnn.Mat()
    border = ncnn.BorderType.BORDER_CONSTANT
    ncnn.copy_make_border(inner, mat, top, HEIGHT - h - top, left, WIDTH - w - left, border, 114.0)
    mat.substract_mean_normalize(MEAN, NORM)
    return mat, (scale, left, top)
