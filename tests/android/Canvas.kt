package android.graphics

import java.awt.BasicStroke
import java.awt.Color
import java.awt.Graphics2D
import java.awt.geom.Ellipse2D
import java.awt.geom.Line2D
import java.awt.geom.Rectangle2D
import java.awt.image.BufferedImage

// The part of Android's classes that Drawing.kt uses, over those of Java.

class RectF(val left: Float, val top: Float, val right: Float, val bottom: Float)

class Bitmap(val image: BufferedImage) {
    enum class Config { ARGB_8888 }

    companion object {
        fun createBitmap(colours: IntArray, width: Int, height: Int, config: Config): Bitmap {
            check(config == Config.ARGB_8888)
            val image = BufferedImage(width, height, BufferedImage.TYPE_INT_ARGB)
            image.setRGB(0, 0, width, height, colours, 0, width)
            return Bitmap(image)
        }
    }
}

class Paint(val flags: Int) {
    enum class Style { FILL, STROKE }

    var strokeWidth = 0f
    var textSize = 0f
    var color = 0
    var style = Style.FILL

    companion object {
        const val ANTI_ALIAS_FLAG = 1
        const val FILTER_BITMAP_FLAG = 2
    }
}

class Canvas(private val bitmap: Bitmap) {
    val width = bitmap.image.width
    val height = bitmap.image.height

    private fun with(paint: Paint, draw: (Graphics2D) -> Unit) {
        val graphics = bitmap.image.createGraphics()
        graphics.color = Color(paint.color, true)
        graphics.stroke = BasicStroke(paint.strokeWidth)
        if (paint.textSize > 0) graphics.font = graphics.font.deriveFont(paint.textSize)
        draw(graphics)
        graphics.dispose()
    }

    fun drawRect(left: Float, top: Float, right: Float, bottom: Float, paint: Paint) {
        check(paint.style == Paint.Style.STROKE)
        with(paint) { it.draw(Rectangle2D.Float(left, top, right - left, bottom - top)) }
    }

    fun drawLine(x0: Float, y0: Float, x1: Float, y1: Float, paint: Paint) = with(paint) { it.draw(Line2D.Float(x0, y0, x1, y1)) }

    fun drawCircle(x: Float, y: Float, radius: Float, paint: Paint) =
        with(paint) { it.fill(Ellipse2D.Float(x - radius, y - radius, 2 * radius, 2 * radius)) }

    fun drawText(text: String, x: Float, y: Float, paint: Paint) = with(paint) { it.drawString(text, x, y) }

    fun drawBitmap(source: Bitmap, part: RectF?, place: RectF, paint: Paint) {
        check(part == null)
        val (x, y) = place.left.toInt() to place.top.toInt()
        with(paint) { it.drawImage(source.image, x, y, place.right.toInt() - x, place.bottom.toInt() - y, null) }
    }
}
