    /** Takes the ids of tokens, and returns the most probable next ones, one after the other. */
    fun run(tokens: IntArray, steps: Int = 32): List<Int> {
        net.reset()
        val made = ArrayList<Int>()
        var now = tokens
        var total = 0
        repeat(steps) {
            val count = now.size
            total = {{total}}
            val given = mapOf(
{{given}}
            ){{first}}
            val logits = net.run(given, OUTPUTS{{continued}}).getValue(LOGITS)
            val width = logits.sizes.last()
            val row = (minOf(count, logits.elements.size / width) - 1) * width
            val best = (0 until width).reduce { best, it -> if (logits.elements[row + it] > logits.elements[row + best]) it else best }
            made.add(best)
            now = {{next}}
        }
        return made
    }
