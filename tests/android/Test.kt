import java.io.File
import java.io.RandomAccessFile
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import javax.imageio.ImageIO
import onnx2ncnn.Blob
import onnx2ncnn.Digits
import onnx2ncnn.NcnnNet

fun fails(what: () -> Unit): String = try {
    what()
    error("nothing was refused")
} catch (error: IllegalArgumentException) {
    error.message!!
}

/** Arguments: the net's param and bin, a picture, and what it shows. */
fun main(args: Array<String>) {
    val param = File(args[0]).readText()
    val file = RandomAccessFile(args[1], "r")
    val bin = file.channel.map(FileChannel.MapMode.READ_ONLY, 0, file.length())
    val picture = ImageIO.read(File(args[2]))
    val pixels = picture.getRGB(0, 0, picture.width, picture.height, null, 0, picture.width)
    for (half in listOf(true, false)) {
        Digits(NcnnNet(param, bin, half)).use { digits ->
            val best = digits.run(pixels, picture.width, picture.height).first()
            check(best.name == args[3] && best.probability > 0.99) { "$best" }
            check("sizes" in fails { digits.run(pixels, picture.width, 1) })
        }
    }
    NcnnNet(param, bin, half = false).use { net ->
        val given = mapOf("picture" to Blob(intArrayOf(1, 8, 8), FloatArray(64)))
        check(net.run(given, listOf("digit")).getValue("digit").sizes.contentEquals(intArrayOf(10)))
        check("no input other" in fails { net.run(mapOf("other" to given.getValue("picture")), listOf("digit")) })
        check("other cannot be computed" in fails { net.run(given, listOf("other")) })
        check("sizes" in fails { Blob(intArrayOf(2, 3), FloatArray(5)) })
    }
    check("does not load" in fails { NcnnNet("7767517", bin) })
    check("direct" in fails { NcnnNet(param, ByteBuffer.allocate(4)) })
    println("the app reads ${args[3]}")
}
