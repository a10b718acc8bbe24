
    /** The text of rows of scores: the best of each row, without repetitions and blanks, which have the index BLANK. */
    private fun text(rows: Blob): String {
        val width = rows.sizes.last()
        val best = (0 until rows.elements.size step width).map { first ->
            (0 until width).reduce { best, it -> if (rows.elements[first + it] > rows.elements[first + best]) it else best }
        }
        val kept = best.filterIndexed { at, it -> it != BLANK && (at == 0 || it != best[at - 1]) }
        return kept.joinToString("") { ALPHABET.getOrElse(it) { index -> "<$index>" } }
    }
