package onnx2ncnn

import java.io.Closeable
import java.nio.ByteBuffer

/** An array: its sizes, the outermost first, and its elements in order. An image has the sizes [channels, height, width]. */
class Blob(val sizes: IntArray, val elements: FloatArray) {
    init {
        require(sizes.size in 1..4) { "a blob has one to four axes" }
        require(sizes.fold(1) { count, size -> count * size } == elements.size) { "the sizes are not those of the elements" }
    }

    companion object {
        /** Numbers, with zeros or without the last ones where another size is needed. */
        fun row(numbers: IntArray, areIntegers: Boolean, size: Int = numbers.size): Blob {
            val all = numbers.copyOf(size)
            return Blob(intArrayOf(size), FloatArray(size) { element(all[it], areIntegers) })
        }

        /** The same number everywhere. */
        fun constant(sizes: IntArray, number: Int, areIntegers: Boolean): Blob {
            val count = sizes.fold(1) { count, size -> count * size }
            return Blob(sizes, FloatArray(count) { element(number, areIntegers) })
        }

        /** A number as the element of an array: of one of integers it is the float with its bits. */
        fun element(number: Int, areIntegers: Boolean): Float = if (areIntegers) Float.fromBits(number) else number.toFloat()
    }
}

/** An input that continues from call to call: it is given this output of the call before. */
class State(val output: String, val isCache: Boolean)

/** The order of the channels of a picture, as a net reads it. */
enum class Order { RGB, BGR, GRAY }

/**
 * A net of ncnn: the text of its `.param`, and its `.bin` in a direct buffer, which it reads in place.
 *
 * Half precision is faster and less exact. Without a number of threads, ncnn takes one for each fast core.
 */
class NcnnNet(param: String, bin: ByteBuffer, half: Boolean = true, threads: Int = 0) : Closeable {
    private var handle: Long

    init {
        require(bin.isDirect) { "the weights have to be in a direct buffer" }
        handle = load(param, bin, half, threads)
    }

    /** Computes outputs, by their names, for inputs by theirs. After the first call, states are those of the call before. */
    @Synchronized
    fun run(inputs: Map<String, Blob>, outputs: List<String>, states: Map<String, State> = emptyMap()): Map<String, Blob> {
        check(handle != 0L) { "the net is closed" }
        val given = inputs.toList()
        val names = given.map { it.first }.toTypedArray()
        val shapes = given.map { it.second.sizes }.toTypedArray()
        val data = given.map { it.second.elements }.toTypedArray()
        val sizes = arrayOfNulls<IntArray>(outputs.size)
        val continued = states.values.map { it.output }.toTypedArray()
        val caches = states.values.map { it.isCache }.toBooleanArray()
        val results = run(handle, names, shapes, data, outputs.toTypedArray(), sizes, states.keys.toTypedArray(), continued, caches)
        return outputs.indices.associate { outputs[it] to Blob(sizes[it]!!, results[it]) }
    }

    /** Forgets the states of earlier calls. */
    @Synchronized
    fun reset() {
        if (handle != 0L) forget(handle)
    }

    @Synchronized
    override fun close() {
        if (handle != 0L) free(handle)
        handle = 0L
    }

    companion object {
        init {
            System.loadLibrary("ncnn_net")
        }

        /** Scales a picture, of which Android's `Bitmap.getPixels` gives the pixels: planes of numbers from 0 to 255. */
        fun planes(pixels: IntArray, width: Int, height: Int, toWidth: Int, toHeight: Int, order: Order): FloatArray {
            require(width > 0 && height > 0 && pixels.size == width * height) { "the sizes are not those of the pixels" }
            return scale(pixels, width, height, toWidth, toHeight, order.ordinal)
        }

        @JvmStatic
        private external fun load(param: String, bin: ByteBuffer, half: Boolean, threads: Int): Long

        @JvmStatic
        private external fun free(handle: Long)

        @JvmStatic
        private external fun forget(handle: Long)

        @JvmStatic
        private external fun run(
            handle: Long,
            inputs: Array<String>,
            shapes: Array<IntArray>,
            data: Array<FloatArray>,
            outputs: Array<String>,
            sizes: Array<IntArray?>,
            states: Array<String>,
            continued: Array<String>,
            caches: BooleanArray
        ): Array<FloatArray>

        @JvmStatic
        private external fun scale(pixels: IntArray, width: Int, height: Int, toWidth: Int, toHeight: Int, order: Int): FloatArray
    }
}
