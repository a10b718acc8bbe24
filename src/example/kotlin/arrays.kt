
    /** An input; a free length, -1, is that of its elements. */
    private fun blob(name: String, shape: IntArray, elements: FloatArray?): Blob {
        val count = shape.fold(1) { count, size -> count * maxOf(size, 1) }
        val isFree = -1 in shape
        require(elements != null || !isFree) { "$name is not given" }
        val all = elements ?: FloatArray(count)
        val sizes = shape.map { if (it < 0) all.size / count else it }.toIntArray()
        return Blob(sizes, if (name in INTEGERS) FloatArray(all.size) { Blob.element(all[it].toInt(), true) } else all)
    }
