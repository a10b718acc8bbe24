        // The line in the height that the net reads, filled up on its right.
        val w = minOf(WIDTH, maxOf(1, (width.toFloat() * HEIGHT / height).roundToInt()))
        val picture = framed(NcnnNet.planes(pixels, width, height, w, HEIGHT, ORDER), w, HEIGHT, 0, 0) { BORDER }
