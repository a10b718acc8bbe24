package onnx2ncnn

import android.graphics.Bitmap
import android.graphics.Canvas
import android.graphics.Paint
import android.graphics.RectF

/** Draws boxes with their names, key points and masks, on a canvas that shows the picture in its own size. */
fun Canvas.draw(boxes: List<Box>) {
    val size = maxOf(width, height) / 40f
    val paint = Paint(Paint.ANTI_ALIAS_FLAG).apply {
        strokeWidth = size / 8
        textSize = size
    }
    // All masks first: no mask covers a box.
    for (box in boxes) box.mask?.let { draw(it, box.left, box.top, box.right, box.bottom) }
    for (box in boxes) {
        paint.color = Colours.of(box.label)
        paint.style = Paint.Style.STROKE
        if (box.corners.isEmpty()) drawRect(box.left, box.top, box.right, box.bottom, paint)
        for ((at, corner) in box.corners.withIndex()) {
            val next = box.corners[(at + 1) % box.corners.size]
            drawLine(corner.x, corner.y, next.x, next.y, paint)
        }
        paint.style = Paint.Style.FILL
        for (point in box.points) {
            if (point.visibility > 0.5f) drawCircle(point.x, point.y, size / 4, paint)
        }
        drawText("%s %.2f".format(box.name, box.score), box.left, maxOf(box.top, size), paint)
    }
}

/** Draws points on a canvas that shows the picture in its own size. */
fun Canvas.drawPoints(points: List<Point>) {
    val paint = Paint(Paint.ANTI_ALIAS_FLAG).apply { color = Colours.of(1) }
    for (point in points) drawCircle(point.x, point.y, maxOf(3f, maxOf(width, height) / 100f), paint)
}

/** Draws a layer over a part of the canvas, or all of it. */
fun Canvas.draw(layer: Layer, left: Float = 0f, top: Float = 0f, right: Float = width.toFloat(), bottom: Float = height.toFloat()) {
    val bitmap = Bitmap.createBitmap(layer.colours, layer.width, layer.height, Bitmap.Config.ARGB_8888)
    drawBitmap(bitmap, null, RectF(left, top, right, bottom), Paint(Paint.FILTER_BITMAP_FLAG))
}
