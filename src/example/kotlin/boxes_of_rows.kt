
    /** All boxes: of rows of x, y, w, h, whether there is an object, a score for each class, and further numbers. */
    private fun candidates(results: Map<String, Blob>): List<Box> {
        val boxes = results.getValue(BOXES)
        val all = boxes.elements
        return (0 until all.size step boxes.sizes.last()).map { box(all, it, it + 5, 1, all[it + 4]) }
    }
