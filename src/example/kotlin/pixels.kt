
    /** The same picture with the channels as its last axis. */
    private fun withChannelsLast(picture: Blob): Blob {
        val all = FloatArray(picture.elements.size) { picture.elements[it % CHANNELS * HEIGHT * WIDTH + it / CHANNELS] }
        return Blob(intArrayOf(HEIGHT, WIDTH, CHANNELS), all)
    }
