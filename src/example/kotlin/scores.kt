
    /** A class, and how likely it is. */
    data class Score(val name: String, val probability: Float)

    /** The most probable classes. */
    private fun best(probabilities: FloatArray, count: Int = 5): List<Score> {
        val order = probabilities.indices.sortedByDescending { probabilities[it] }
        return order.take(count).map { Score(NAMES.getOrElse(it) { label -> "$label" }, probabilities[it]) }
    }
