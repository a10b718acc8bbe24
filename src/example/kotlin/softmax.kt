
    /** Probabilities of scores. */
    private fun softmax(scores: FloatArray): FloatArray {
        val most = scores.reduce { a, b -> maxOf(a, b) }
        val powers = FloatArray(scores.size) { exp(scores[it] - most) }
        val sum = powers.sum()
        return FloatArray(scores.size) { powers[it] / sum }
    }
