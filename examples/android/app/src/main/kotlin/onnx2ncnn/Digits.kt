// Runs model.onnx in ncnn, in an app for Android or in any program on Java.
//
// input   picture  float [1, 1, 8, 8], a Mat of [1, 8, 8]
// output  digit  float [1, 10], a Mat of [10]
//
// Needs NcnnNet.kt, Results.kt, and the library of ncnn_net.cpp and CMakeLists.txt, which were written next to it. Drawing.kt draws results on a Canvas of
// Android. In app/build.gradle.kts, with ncnn-YYYYMMDD-android.zip of ncnn's releases unpacked as the folder ncnn of the project:
//
//     android {
//         defaultConfig { externalNativeBuild { cmake { arguments += "-Dncnn_ROOT=${rootDir}/ncnn" } } }
//         externalNativeBuild { cmake { path = file("src/main/cpp/CMakeLists.txt") } }
//         androidResources { noCompress += listOf("param", "bin") }
//     }
//
// In an app that has the files of the net among its assets:
//
//     val param = assets.open("digits.param").bufferedReader().use { it.readText() }
//     val bin = assets.openFd("digits.bin").use {
//         FileInputStream(it.fileDescriptor).channel.map(FileChannel.MapMode.READ_ONLY, it.startOffset, it.declaredLength)
//     }
//     val net = Digits(NcnnNet(param, bin))
//     println(net.run(pixels, width, height))
//
// Keep it for all calls, and close it with net.close() at the end. A call takes longer than a frame of the screen: run it in a thread.
//
// Written by onnx2ncnn 0.2.0 for this model. It is yours to change.

package onnx2ncnn

import java.io.Closeable

/** Reads pictures. */
class Digits(private val net: NcnnNet) : Closeable by net {
    /** Takes the pixels of a picture, row by row, as Android's `Bitmap.getPixels` gives them. */
    fun run(pixels: IntArray, width: Int, height: Int): List<Score> {
        val planes = NcnnNet.planes(pixels, width, height, WIDTH, HEIGHT, ORDER)
        val picture = framed(planes, WIDTH, HEIGHT, WIDTH, HEIGHT, 0, 0) { 0f }
        val given = mapOf(
            "picture" to picture
        )
        val results = net.run(given, OUTPUTS)
        return best(results.getValue(SCORES).elements)
    }

    /** Planes inside a border of a number for each channel, as the net reads pixels. */
    private fun framed(planes: FloatArray, w: Int, h: Int, wide: Int, high: Int, left: Int, top: Int, border: (Int) -> Float): Blob {
        val all = FloatArray(CHANNELS * high * wide)
        for (c in 0 until CHANNELS) {
            all.fill(border(c), c * high * wide, (c + 1) * high * wide)
            for (y in 0 until h) {
                for (x in 0 until w) {
                    all[(c * high + top + y) * wide + left + x] = (planes[(c * h + y) * w + x] - MEAN[c]) * NORM[c]
                }
            }
        }
        return Blob(intArrayOf(CHANNELS, high, wide), all)
    }

    /** The most probable classes. */
    private fun best(probabilities: FloatArray, count: Int = 5): List<Score> {
        val order = probabilities.indices.sortedByDescending { probabilities[it] }
        return order.take(count).map { Score(NAMES.getOrElse(it) { label -> "$label" }, probabilities[it]) }
    }

    companion object {
        private val OUTPUTS = listOf<String>("digit")
        private const val WIDTH = 8
        private const val HEIGHT = 8
        private const val CHANNELS = 1
        private val ORDER = Order.GRAY
        // Pixels from 0 to 1; the model does not tell how it reads them.
        private val MEAN = floatArrayOf(0.0f)
        private val NORM = floatArrayOf(0.00392156862745098f)
        private const val SCORES = "digit"
        private val NAMES = listOf<String>("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    }
}
