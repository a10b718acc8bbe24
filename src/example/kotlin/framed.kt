
    /** Planes inside a border of a number for each channel, as the net reads pixels. */
    private fun framed(planes: FloatArray, w: Int, h: Int, left: Int, top: Int, border: (Int) -> Float): Blob {
        val all = FloatArray(CHANNELS * HEIGHT * WIDTH)
        for (c in 0 until CHANNELS) {
            all.fill(border(c), c * HEIGHT * WIDTH, (c + 1) * HEIGHT * WIDTH)
            for (y in 0 until h) {
                for (x in 0 until w) {
                    all[(c * HEIGHT + top + y) * WIDTH + left + x] = (planes[(c * h + y) * w + x] - MEAN[c]) * NORM[c]
                }
            }
        }
        return Blob(intArrayOf(CHANNELS, HEIGHT, WIDTH), all)
    }
