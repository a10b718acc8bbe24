
    /** Begins a new sequence: forgets the states of earlier calls. */
    fun reset() = net.reset()

    /** The states before the first call. */
    private fun first(): Map<String, Blob> = mapOf(
{{states}}
    )
