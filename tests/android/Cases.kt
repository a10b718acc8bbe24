package onnx2ncnn

import java.io.File
import java.io.RandomAccessFile
import java.nio.channels.FileChannel

class Picture(val pixels: IntArray, val width: Int, val height: Int)

fun picture(side: Int, colour: Long) = Picture(IntArray(side * side) { colour.toInt() }, side, side)

/** A result as programs in other languages print it. */
fun show(result: Any): String = when {
    result is String -> "$result\n"
    result is List<*> && result.all { it is Int } -> result.joinToString("") { "$it " } + "\n"
    result is List<*> -> result.joinToString("") { show(it!!) + "\n" }
    else -> {
        fun of(name: String) = result.javaClass.getMethod("get$name").invoke(result)
        val numbers = listOf("Left", "Top", "Right", "Bottom")
        when (result.javaClass.simpleName) {
            "Score" -> "%s  %.3f".format(of("Name"), of("Probability"))
            else -> "%s  %.3f  %.1f %.1f %.1f %.1f".format(of("Name"), of("Score"), *numbers.map { of(it) }.toTypedArray())
        }
    }
}

fun open(folder: File, name: String): NcnnNet {
    val file = RandomAccessFile(File(folder, "$name.ncnn.bin"), "r")
    val bin = file.channel.map(FileChannel.MapMode.READ_ONLY, 0, file.length())
    return NcnnNet(File(folder, "$name.ncnn.param").readText(), bin, half = false)
}

/** Argument: the folder of the nets. */
fun main(args: Array<String>) {
    var count = 0
    fun check(name: String, expected: String, run: (NcnnNet) -> String) {
        val printed = run(open(File(args[0]), name))
        check(printed == expected) { "$name:\n$printed\nis not\n$expected" }
        count++
    }
    // CASES
    println("$count programs in Kotlin say what they should")
}
