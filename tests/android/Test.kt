import java.awt.Image
import java.awt.image.BufferedImage
import java.io.File
import java.io.RandomAccessFile
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import javax.imageio.ImageIO
import org.example.digits.Blob
import org.example.digits.Digits
import org.example.digits.Net

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
    val small = BufferedImage(Digits.SIZE, Digits.SIZE, BufferedImage.TYPE_INT_ARGB)
    val picture = ImageIO.read(File(args[2])).getScaledInstance(Digits.SIZE, Digits.SIZE, Image.SCALE_AREA_AVERAGING)
    small.createGraphics().drawImage(picture, 0, 0, null)
    val pixels = small.getRGB(0, 0, Digits.SIZE, Digits.SIZE, null, 0, Digits.SIZE)
    for (half in listOf(true, false)) {
        Digits(Net(param, bin, half)).use { digits -> check(digits.read(pixels) == args[3]) { digits.read(pixels) } }
    }
    Net(param, bin, half = false).use { net ->
        val given = mapOf("picture" to Blob(intArrayOf(1, 8, 8), FloatArray(64)))
        check(net.run(given, "digit").getValue("digit").sizes.contentEquals(intArrayOf(10)))
        check("no input other" in fails { net.run(mapOf("other" to given.getValue("picture")), "digit") })
        check("other cannot be computed" in fails { net.run(given, "other") })
        check("sizes" in fails { Blob(intArrayOf(2, 3), FloatArray(5)) })
    }
    check("does not load" in fails { Net("7767517", bin) })
    check("direct" in fails { Net(param, ByteBuffer.allocate(4)) })
    println("the app reads ${args[3]}")
}
