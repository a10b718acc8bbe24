
    /** The box of a centre and a size, with the best of its scores. */
    private fun box(all: FloatArray, centre: Int, scores: Int, step: Int, factor: Float): Box {
        val label = (0 until CLASSES).reduce { best, it -> if (all[scores + it * step] > all[scores + best * step]) it else best }
        val x = all[centre]
        val y = all[centre + step]
        val w = all[centre + 2 * step] / 2
        val h = all[centre + 3 * step] / 2
        return Box(label, all[scores + label * step] * factor, x - w, y - h, x + w, y + h)
    }
