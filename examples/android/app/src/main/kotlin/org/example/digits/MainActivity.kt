package org.example.digits

import android.app.Activity
import android.content.Context
import android.graphics.Bitmap
import android.graphics.Canvas
import android.graphics.Color
import android.graphics.Paint
import android.graphics.Path
import android.os.Bundle
import android.view.MotionEvent
import android.view.View
import java.io.FileInputStream
import java.nio.MappedByteBuffer
import java.nio.channels.FileChannel
import onnx2ncnn.Digits
import onnx2ncnn.NcnnNet

/** Shows the name of the digit that a finger draws. */
class MainActivity : Activity() {
    private lateinit var digits: Digits

    override fun onCreate(state: Bundle?) {
        super.onCreate(state)
        val param = assets.open("digits.param").bufferedReader().use { it.readText() }
        digits = Digits(NcnnNet(param, map("digits.bin")))
        setContentView(Paper(this) { pixels, width, height -> title = digits.run(pixels, width, height).first().name })
    }

    override fun onDestroy() {
        digits.close()
        super.onDestroy()
    }

    /** An asset that is not compressed, in memory that the system reads when it is needed. */
    private fun map(name: String): MappedByteBuffer = assets.openFd(name).use { asset ->
        FileInputStream(asset.fileDescriptor).channel.map(FileChannel.MapMode.READ_ONLY, asset.startOffset, asset.declaredLength)
    }
}

/** A black page for white ink. `read` is given the pixels of each stroke that ends; the next one begins a new page. */
private class Paper(context: Context, private val read: (IntArray, Int, Int) -> Unit) : View(context) {
    private val path = Path()
    private val ink = Paint(Paint.ANTI_ALIAS_FLAG).apply {
        color = Color.WHITE
        style = Paint.Style.STROKE
        strokeCap = Paint.Cap.ROUND
    }

    override fun onDraw(canvas: Canvas) {
        canvas.drawColor(Color.BLACK)
        ink.strokeWidth = width / 8f
        canvas.drawPath(path, ink)
    }

    override fun onTouchEvent(event: MotionEvent): Boolean {
        when (event.action) {
            MotionEvent.ACTION_DOWN -> {
                path.reset()
                path.moveTo(event.x, event.y)
            }
            MotionEvent.ACTION_MOVE -> path.lineTo(event.x, event.y)
            MotionEvent.ACTION_UP -> read(pixels(), width, height)
        }
        invalidate()
        return true
    }

    private fun pixels(): IntArray {
        val page = Bitmap.createBitmap(width, height, Bitmap.Config.ARGB_8888)
        draw(Canvas(page))
        return IntArray(width * height).also { page.getPixels(it, 0, width, 0, 0, width, height) }
    }
}
