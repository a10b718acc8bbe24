        // The picture inside a gray border, without distortion.
        val scale = minOf(WIDTH.toFloat() / width, HEIGHT.toFloat() / height)
        val w = maxOf(1, (width * scale).roundToInt())
        val h = maxOf(1, (height * scale).roundToInt())
        val left = (WIDTH - w) / 2
        val top = (HEIGHT - h) / 2
        val picture = framed(NcnnNet.planes(pixels, width, height, w, h, ORDER), w, h, left, top) { (114f - MEAN[it]) * NORM[it] }
