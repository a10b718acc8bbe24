
    /** The boxes above the threshold, the best first, without those that lie over a better one of their class. */
    private fun select(boxes: List<Box>, threshold: Float, overlap: Float): List<Box> {
        val kept = ArrayList<Box>()
        for (box in boxes.filter { it.score >= threshold }.sortedByDescending { it.score }) {
            if (kept.none { it.label == box.label && it.overlap(box) > overlap }) kept.add(box)
        }
        return kept
    }
