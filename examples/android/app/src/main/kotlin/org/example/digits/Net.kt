package org.example.digits

import java.io.Closeable
import java.nio.ByteBuffer

/** An array: its sizes, the outermost first, and its elements in order. An image has the sizes [channels, height, width]. */
class Blob(val sizes: IntArray, val elements: FloatArray) {
    init {
        require(sizes.size in 1..4) { "a blob has one to four axes" }
        require(sizes.fold(1) { count, size -> count * size } == elements.size) { "the sizes are not those of the elements" }
    }
}

/**
 * A net of ncnn: the text of its `.param`, and its `.bin` in a direct buffer, which it reads in place.
 *
 * Half precision is faster and less exact.
 */
class Net(param: String, bin: ByteBuffer, half: Boolean = true) : Closeable {
    private var handle: Long

    init {
        require(bin.isDirect) { "the weights have to be in a direct buffer" }
        handle = load(param, bin, half)
    }

    /** Computes outputs, by their names, for inputs by theirs. */
    @Synchronized
    fun run(inputs: Map<String, Blob>, vararg outputs: String): Map<String, Blob> {
        check(handle != 0L) { "the net is closed" }
        val given = inputs.toList()
        val names = given.map { it.first }.toTypedArray()
        val shapes = given.map { it.second.sizes }.toTypedArray()
        val data = given.map { it.second.elements }.toTypedArray()
        val sizes = arrayOfNulls<IntArray>(outputs.size)
        val results = run(handle, names, shapes, data, arrayOf(*outputs), sizes)
        return outputs.indices.associate { outputs[it] to Blob(sizes[it]!!, results[it]) }
    }

    @Synchronized
    override fun close() {
        if (handle != 0L) free(handle)
        handle = 0L
    }

    private companion object {
        init {
            System.loadLibrary("digits")
        }

        @JvmStatic
        external fun load(param: String, bin: ByteBuffer, half: Boolean): Long

        @JvmStatic
        external fun free(handle: Long)

        @JvmStatic
        external fun run(
            handle: Long,
            inputs: Array<String>,
            shapes: Array<IntArray>,
            data: Array<FloatArray>,
            outputs: Array<String>,
            sizes: Array<IntArray?>
        ): Array<FloatArray>
    }
}
