
    /** All boxes: of rows of left, top, right, bottom, score, class, and further numbers. */
    private fun candidates(results: Map<String, Blob>): List<Box> {
        val boxes = results.getValue(BOXES)
        val all = boxes.elements
        val starts = 0 until all.size step boxes.sizes.last()
        return starts.map { Box(all[it + 5].toInt(), all[it + 4], all[it], all[it + 1], all[it + 2], all[it + 3]) }
    }
