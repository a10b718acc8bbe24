
    /** All boxes: of columns of x, y, w, h, a score for each class, and further numbers. */
    private fun candidates(results: Map<String, Blob>): List<Box> {
        val boxes = results.getValue(BOXES)
        val count = boxes.sizes.last()
        return List(count) { box(boxes.elements, it, it + 4 * count, count, 1f) }
    }
