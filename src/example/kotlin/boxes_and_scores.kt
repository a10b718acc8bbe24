
    /** All boxes: of two outputs. Boxes between 0 and 1 are parts of the picture. */
    private fun candidates(results: Map<String, Blob>): List<Box> {
        val corners = results.getValue(BOXES).elements
        val scores = results.getValue(SCORES).elements
        val areParts = corners.all { it in -2f..2f }
        val w = if (areParts) WIDTH.toFloat() else 1f
        val h = if (areParts) HEIGHT.toFloat() else 1f
        return List(corners.size / 4) { row ->
            val first = row * CLASSES
            val label = (0 until CLASSES).reduce { best, it -> if (scores[first + it] > scores[first + best]) it else best }
            val at = 4 * row
            Box(label, scores[first + label], corners[at] * w, corners[at + 1] * h, corners[at + 2] * w, corners[at + 3] * h)
        }
    }
