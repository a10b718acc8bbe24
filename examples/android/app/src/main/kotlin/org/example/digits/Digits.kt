package org.example.digits

import java.io.Closeable

/** Reads digits of 8 by 8 pixels. */
class Digits(private val net: Net) : Closeable by net {
    /** Returns the name of the digit, for its pixels as Android has them: white is the ink, row by row. */
    fun read(pixels: IntArray): String {
        val gray = FloatArray(pixels.size) { (pixels[it] and 0xff) / 255f }
        val scores = net.run(mapOf("picture" to Blob(intArrayOf(1, SIZE, SIZE), gray)), "digit").getValue("digit").elements
        return NAMES[scores.indices.reduce { best, it -> if (scores[it] > scores[best]) it else best }]
    }

    companion object {
        const val SIZE = 8
        private val NAMES = listOf("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    }
}
