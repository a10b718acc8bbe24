
    /** A box in the picture, its class, and how likely it is. */
    data class Box(val label: Int, val score: Float, val left: Float, val top: Float, val right: Float, val bottom: Float) {
        val name: String get() = NAMES.getOrElse(label) { "$label" }

        /** The area that it shares with another one, as a part of the area of both. */
        fun overlap(other: Box): Float {
            val w = maxOf(0f, minOf(right, other.right) - maxOf(left, other.left))
            val h = maxOf(0f, minOf(bottom, other.bottom) - maxOf(top, other.top))
            return w * h / maxOf(area() + other.area() - w * h, 1e-9f)
        }

        /** The same box in the picture of which the net reads one of another scale, at another place. */
        fun moved(x: Int, y: Int, scale: Float): Box =
            copy(left = (left - x) / scale, top = (top - y) / scale, right = (right - x) / scale, bottom = (bottom - y) / scale)

        private fun area(): Float = (right - left) * (bottom - top)
    }
