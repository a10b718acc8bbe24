    /** Takes the pixels of a picture, row by row, as Android's `Bitmap.getPixels` gives them. */
    fun run(pixels: IntArray, width: Int, height: Int): {{type}} {
{{read}}
        val given = mapOf(
{{given}}
        ){{first}}
        val results = net.run(given, OUTPUTS{{continued}})
        return {{tail}}
    }
