        val planes = NcnnNet.planes(pixels, width, height, WIDTH, HEIGHT, ORDER)
        val picture = framed(planes, WIDTH, HEIGHT, 0, 0) { 0f }
