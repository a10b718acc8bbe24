package onnx2ncnn

import android.graphics.Bitmap
import android.graphics.Canvas
import java.awt.image.BufferedImage
import java.io.File
import java.io.RandomAccessFile
import java.nio.channels.FileChannel

/** What the last program found first. */
var first: Any? = null

class Picture(val pixels: IntArray, val width: Int, val height: Int)

fun picture(width: Int, height: Int, colour: Long) = Picture(IntArray(width * height) { colour.toInt() }, width, height)

/** A result as programs in other languages print it. */
fun show(result: Any): String = when (result) {
    is String -> "$result\n"
    is FloatArray -> result.joinToString(" ") + "\n"
    is Layer -> "%d %d %08x %08x\n".format(result.width, result.height, result.colours.first(), result.colours.last())
    is List<*> -> {
        first = result.firstOrNull()
        if (result.all { it is Int }) result.joinToString("") { "$it " } + "\n" else result.joinToString("") { show(it!!) + "\n" }
    }
    is Point -> "%.1f %.1f  %.3f".format(result.x, result.y, result.visibility)
    is Score -> "%s  %.3f".format(result.name, result.probability)
    is Box -> {
        val corners = result.corners.flatMap { listOf(it.x, it.y) }.ifEmpty { listOf(result.left, result.top, result.right, result.bottom) }
        "%s  %.3f  %s".format(result.name, result.score, corners.joinToString(" ") { "%.1f".format(it) })
    }
    else -> result.toString()
}

fun open(folder: File, name: String): NcnnNet {
    val file = RandomAccessFile(File(folder, "$name.ncnn.bin"), "r")
    val bin = file.channel.map(FileChannel.MapMode.READ_ONLY, 0, file.length())
    return NcnnNet(File(folder, "$name.ncnn.param").readText(), bin, half = false)
}

/** A box of the first class, 30 to 50 high in a black picture of 128 pixels, and what is drawn with it. */
fun checkDrawing(name: String, box: Box) {
    val image = BufferedImage(128, 128, BufferedImage.TYPE_INT_ARGB)
    Canvas(Bitmap(image)).draw(listOf(box))
    check(name == "oriented" || image.getRGB(box.left.toInt(), 45) == Colours.of(0)) { "$name: no box" }
    check(name != "oriented" || image.getRGB(60, 60) ushr 24 == 0 && image.getRGB(box.corners[0].x.toInt(), box.corners[0].y.toInt()) == Colours.of(0))
    check(name != "points" || box.points == listOf(Point(110f, 60f, 1f), Point(120f, 60f, 0f)))
    check(name != "points" || image.getRGB(110, 60) == Colours.of(0) && image.getRGB(120, 60) == 0) { "points" }
    check(name != "masks" || image.getRGB(40, 40) == Colours.of(0, 128)) { "masks" }
    first = null
}

/** Argument: the folder of the nets. */
fun main(args: Array<String>) {
    var count = 0
    fun check(name: String, expected: String, run: (NcnnNet) -> String) {
        val printed = run(open(File(args[0]), name))
        (first as? Box)?.let { box -> checkDrawing(name, box) }
        check(printed == expected) { "$name:\n$printed\nis not\n$expected" }
        count++
    }
    // CASES
    println("$count programs in Kotlin say what they should")
}
