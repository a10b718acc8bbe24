package onnx2ncnn

/** A class, and how likely it is. */
data class Score(val name: String, val probability: Float)

/** A point of a picture; a key point tells how visible it is, from 0 to 1. */
data class Point(val x: Float, val y: Float, val visibility: Float = 1f)

/** Colours to be drawn over a picture, row by row, as Android has them. */
class Layer(val width: Int, val height: Int, val colours: IntArray)

/**
 * A box in the picture, its class, and how likely it is.
 *
 * [corners] are those of a box with an angle, [points] the key points. [mask] has the size of the box, and is transparent outside of the object.
 */
class Box(
    val label: Int,
    val name: String,
    val score: Float,
    val left: Float,
    val top: Float,
    val right: Float,
    val bottom: Float,
    val corners: List<Point> = emptyList(),
    val points: List<Point> = emptyList(),
    val mask: Layer? = null
) {
    override fun toString(): String = "$name $score: $left $top $right $bottom"
}

/** The colours of classes. */
object Colours {
    private val ALL = intArrayOf(0xff4040, 0x40d040, 0x5090ff, 0xffc000, 0xe050e0, 0x00d0d0, 0xff8020, 0xa0e060)

    /** The colour of a class; [alpha] is 255 for one that hides the picture. */
    fun of(label: Int, alpha: Int = 255): Int = (alpha shl 24) or ALL[Math.floorMod(label, ALL.size)]

    /** A colour for a number from 0, which is blue, to 1, which is red. */
    fun heat(number: Float, alpha: Int): Int {
        var colour = alpha
        for (centre in 3 downTo 1) {
            val part = (1.5f - kotlin.math.abs(4 * number - centre)).coerceIn(0f, 1f)
            colour = (colour shl 8) or (255 * part).toInt()
        }
        return colour
    }
}
