// Operators of ONNX on arrays, for the nodes of a model that follow its net.
//
// Written next to a class of --example. Axes may count from the end.

package onnx2ncnn

import kotlin.math.ceil
import kotlin.math.exp
import kotlin.math.floor
import kotlin.math.ln
import kotlin.math.pow
import kotlin.math.sqrt
import kotlin.math.tanh
import kotlin.math.truncate

/**
 * Elements in row-major order. Each element is a Double, which holds floats, integers up to 2^53, and truth values; [isInteger] says whether it is one of the
 * latter two. Floats are rounded to 32 bits, as in the model.
 */
class OnnxArray(val shape: IntArray, val isInteger: Boolean, element: (Int) -> Double) {
    val data = DoubleArray(count(shape.asList())) { if (isInteger) element(it) else element(it).toFloat().toDouble() }

    val rank get() = shape.size

    fun axis(number: Int): Int = if (number < 0) number + rank else number

    /** The number of elements after an axis: of all indices of the axes there. */
    fun after(axis: Int): Int = count(shape.drop(axis + 1))

    /** The elements as integers. */
    fun integers(): IntArray = IntArray(data.size) { data[it].coerceIn(-1e9, 1e9).toInt() }

    fun shaped(vararg sizes: Int): OnnxArray {
        require(count(sizes.asList()) == data.size) { "an array of ${data.size} elements has no shape ${sizes.asList()}" }
        return OnnxArray(sizes, isInteger) { data[it] }
    }

    companion object {
        fun count(sizes: List<Int>): Int = sizes.fold(1) { count, size -> count * size }
    }
}

private typealias A = OnnxArray

object Op {
    fun floats(shape: IntArray, vararg elements: Double) = A(shape, false) { elements[it] }

    fun integers(shape: IntArray, vararg elements: Long) = A(shape, true) { elements[it].toDouble() }

    fun truths(shape: IntArray, vararg elements: Long) = integers(shape, *elements)

    private fun unary(x: A, isInteger: Boolean, function: (Double) -> Double) = A(x.shape, isInteger) { function(x.data[it]) }

    fun asFloat(x: A) = unary(x, false) { it }

    fun asInteger(x: A) = unary(x, true) { truncate(it) }

    fun asTruth(x: A) = unary(x, true) { truth(it != 0.0) }

    fun isTrue(x: A): Boolean = x.data[0] != 0.0

    private fun truth(isTrue: Boolean): Double = if (isTrue) 1.0 else 0.0

    /** The common shape of two arrays. */
    private fun common(a: IntArray, b: IntArray): IntArray {
        val rank = maxOf(a.size, b.size)
        return IntArray(rank) {
            val m = a.getOrElse(it - rank + a.size) { 1 }
            val n = b.getOrElse(it - rank + b.size) { 1 }
            require(m == n || m == 1 || n == 1) { "the shapes ${a.asList()} and ${b.asList()} do not fit" }
            if (m == 1) n else m
        }
    }

    /** The array whose axes have other steps in the elements of x. */
    private fun walked(x: A, shape: IntArray, steps: IntArray): A = A(shape, x.isInteger) {
        var left = it
        var from = 0
        for (axis in shape.indices.reversed()) {
            from += left % shape[axis] * steps[axis]
            left /= shape[axis]
        }
        x.data[from]
    }

    private fun expandTo(x: A, shape: IntArray): A {
        val first = shape.size - x.rank
        return walked(x, shape, IntArray(shape.size) { if (it < first || x.shape[it - first] == 1) 0 else x.after(it - first) })
    }

    private fun binary(a: A, b: A, isInteger: Boolean, function: (Double, Double) -> Double): A {
        val shape = common(a.shape, b.shape)
        val x = expandTo(a, shape).data
        val y = expandTo(b, shape).data
        return A(shape, isInteger) { function(x[it], y[it]) }
    }

    private fun arithmetic(a: A, b: A, function: (Double, Double) -> Double) = binary(a, b, a.isInteger && b.isInteger, function)

    private fun comparison(a: A, b: A, function: (Double, Double) -> Boolean) = binary(a, b, true) { x, y -> truth(function(x, y)) }

    fun add(a: A, b: A) = arithmetic(a, b) { x, y -> x + y }

    fun subtract(a: A, b: A) = arithmetic(a, b) { x, y -> x - y }

    fun multiply(a: A, b: A) = arithmetic(a, b) { x, y -> x * y }

    /** The quotient; of integers it is rounded toward 0. */
    fun divide(a: A, b: A) = arithmetic(a, b) { x, y -> if (a.isInteger && b.isInteger) truncate(x / y) else x / y }

    /** The remainder, with the sign of the dividend or of the divisor. */
    fun modulo(a: A, b: A, likeDividend: Boolean) = arithmetic(a, b) { x, y -> if (likeDividend) x % y else x - y * floor(x / y) }

    fun power(a: A, b: A) = binary(a, b, a.isInteger) { x, y -> x.pow(y) }

    fun minimum(a: A, b: A) = arithmetic(a, b) { x, y -> minOf(x, y) }

    fun maximum(a: A, b: A) = arithmetic(a, b) { x, y -> maxOf(x, y) }

    fun logicalAnd(a: A, b: A) = comparison(a, b) { x, y -> x != 0.0 && y != 0.0 }

    fun logicalOr(a: A, b: A) = comparison(a, b) { x, y -> x != 0.0 || y != 0.0 }

    fun logicalXor(a: A, b: A) = comparison(a, b) { x, y -> x != y }

    fun logicalNot(x: A) = unary(x, true) { truth(it == 0.0) }

    fun isNan(x: A) = unary(x, true) { truth(it.isNaN()) }

    fun isInfinite(x: A) = unary(x, true) { truth(it.isInfinite()) }

    fun equal(a: A, b: A) = comparison(a, b) { x, y -> x == y }

    fun greater(a: A, b: A) = comparison(a, b) { x, y -> x > y }

    fun greaterOrEqual(a: A, b: A) = comparison(a, b) { x, y -> x >= y }

    fun less(a: A, b: A) = comparison(a, b) { x, y -> x < y }

    fun lessOrEqual(a: A, b: A) = comparison(a, b) { x, y -> x <= y }

    fun where(condition: A, a: A, b: A): A {
        val shape = common(condition.shape, common(a.shape, b.shape))
        val (isTrue, x, y) = listOf(condition, a, b).map { expandTo(it, shape).data }
        return A(shape, a.isInteger) { if (isTrue[it] != 0.0) x[it] else y[it] }
    }

    fun absolute(x: A) = unary(x, x.isInteger) { kotlin.math.abs(it) }

    fun negative(x: A) = unary(x, x.isInteger) { -it }

    fun sign(x: A) = unary(x, x.isInteger) { kotlin.math.sign(it) }

    fun floor(x: A) = unary(x, x.isInteger) { floor(it) }

    fun ceil(x: A) = unary(x, x.isInteger) { ceil(it) }

    fun roundToEven(x: A) = unary(x, x.isInteger) { Math.rint(it) }

    fun sqrt(x: A) = unary(x, false) { sqrt(it) }

    fun exp(x: A) = unary(x, false) { exp(it) }

    fun log(x: A) = unary(x, false) { ln(it) }

    fun sin(x: A) = unary(x, false) { kotlin.math.sin(it) }

    fun cos(x: A) = unary(x, false) { kotlin.math.cos(it) }

    fun reciprocal(x: A) = unary(x, false) { 1 / it }

    fun sigmoid(x: A) = unary(x, false) { 1 / (1 + exp(-it)) }

    fun tanh(x: A) = unary(x, false) { tanh(it) }

    fun relu(x: A) = unary(x, x.isInteger) { maxOf(it, 0.0) }

    /** The elements between two bounds, each of which may be null. */
    fun clip(x: A, low: A?, high: A?): A {
        val above = if (low == null) x else maximum(x, low)
        return if (high == null) above else minimum(above, high)
    }

    fun shape(x: A) = A(intArrayOf(x.rank), true) { x.shape[it].toDouble() }

    fun size(x: A) = A(intArrayOf(), true) { x.data.size.toDouble() }

    /** Without zeroIsASize, 0 is the size that x has there. */
    fun reshape(x: A, sizes: A, zeroIsASize: Boolean): A {
        val to = sizes.integers().mapIndexed { at, size -> if (size == 0 && !zeroIsASize) x.shape[at] else size }
        val known = A.count(to.filter { it >= 0 })
        return x.shaped(*to.map { if (it < 0) x.data.size / maxOf(known, 1) else it }.toIntArray())
    }

    fun flatten(x: A, axis: Int): A {
        val rows = A.count(x.shape.take(x.axis(axis)))
        return x.shaped(rows, if (rows == 0) 0 else x.data.size / rows)
    }

    /** Without these axes of size 1; all of them if the list is empty. */
    fun squeeze(x: A, axes: IntArray): A {
        val listed = axes.map { x.axis(it) }
        return x.shaped(*x.shape.filterIndexed { at, size -> if (axes.isEmpty()) size != 1 else at !in listed }.toIntArray())
    }

    fun unsqueeze(x: A, axes: IntArray): A {
        val rank = x.rank + axes.size
        val listed = axes.map { if (it < 0) it + rank else it }
        val sizes = x.shape.iterator()
        return x.shaped(*IntArray(rank) { if (it in listed) 1 else sizes.next() })
    }

    /** The axes in another order, the reverse one if the list is empty. */
    fun transpose(x: A, order: IntArray): A {
        val axes = if (order.isEmpty()) x.shape.indices.reversed() else order.asIterable()
        return walked(x, axes.map { x.shape[it] }.toIntArray(), axes.map { x.after(it) }.toIntArray())
    }

    fun expand(x: A, sizes: A) = expandTo(x, common(x.shape, sizes.integers()))

    /** The elements at some indices of an axis. */
    private fun taken(x: A, indices: List<Int>, number: Int): A {
        val axis = x.axis(number)
        val size = x.shape[axis]
        require(indices.all { it in -size until size }) { "an index is outside of an array" }
        val after = x.after(axis)
        val shape = x.shape.copyOf().also { it[axis] = indices.size }
        return A(shape, x.isInteger) {
            val index = indices[it / after % indices.size]
            x.data[(it / after / indices.size * size + if (index < 0) index + size else index) * after + it % after]
        }
    }

    fun tile(x: A, repeats: A) = repeats.integers().foldIndexed(x) { axis, result, count ->
        taken(result, List(count * x.shape[axis]) { it % x.shape[axis] }, axis)
    }

    fun concat(parts: List<A>, number: Int): A {
        val first = parts[0]
        val axis = first.axis(number)
        val shape = first.shape.copyOf().also { it[axis] = parts.fold(0) { sum, part -> sum + part.shape[axis] } }
        val rows = A.count(shape.take(axis))
        val all = (0 until rows).flatMap { row ->
            parts.flatMap { val size = it.data.size / rows; it.data.asList().subList(row * size, (row + 1) * size) }
        }
        return A(shape, first.isInteger) { all[it] }
    }

    fun split(x: A, sizes: A, axis: Int): List<A> {
        var start = 0
        return sizes.integers().map { size -> taken(x, List(size) { start + it }, axis).also { start += size } }
    }

    fun sliceOf(x: A, starts: A, ends: A, axes: IntArray, steps: A) = axes.foldIndexed(x) { at, result, axis ->
        val size = x.shape[x.axis(axis)]
        val step = steps.integers()[at]
        // An end beyond the array is the end of the array.
        val (start, end) = listOf(starts, ends).map { it.integers()[at].let { n -> if (n < 0) n + size else n } }
        val span = if (step > 0) start.coerceIn(0, size) until end.coerceIn(0, size) step step
        else start.coerceIn(-1, size - 1) downTo end.coerceIn(-1, size) + 1 step -step
        taken(result, span.toList(), axis)
    }

    /** The elements from a diagonal on, or up to it; 0 elsewhere. */
    fun trilu(x: A, diagonal: A?, isUpper: Boolean): A {
        val columns = x.shape.last()
        val rows = x.shape[x.rank - 2]
        val shift = diagonal?.integers()?.get(0) ?: 0
        return A(x.shape, x.isInteger) {
            val at = it % columns - it / columns % rows
            if (if (isUpper) at >= shift else at <= shift) x.data[it] else 0.0
        }
    }

    fun gather(x: A, indices: A, number: Int): A {
        val axis = x.axis(number)
        return taken(x, indices.integers().asList(), axis).shaped(*(x.shape.take(axis) + indices.shape.asList() + x.shape.drop(axis + 1)).toIntArray())
    }

    /** For each element of indices along an axis, its offset in x. */
    private fun offsets(x: A, indices: A, axis: Int): List<Int> {
        val numbers = indices.integers()
        return numbers.indices.map { at ->
            var left = at
            var from = 0
            for (i in x.shape.indices.reversed()) {
                val index = if (i == axis) numbers[at] else left % indices.shape[i]
                require(index in -x.shape[i] until x.shape[i]) { "an index is outside of an array" }
                from += (if (index < 0) index + x.shape[i] else index) * x.after(i)
                left /= indices.shape[i]
            }
            from
        }
    }

    fun gatherElements(x: A, indices: A, axis: Int): A {
        val from = offsets(x, indices, x.axis(axis))
        return A(indices.shape, x.isInteger) { x.data[from[it]] }
    }

    fun scatterElements(x: A, indices: A, updates: A, axis: Int): A {
        val all = x.data.copyOf()
        offsets(x, indices, x.axis(axis)).forEachIndexed { at, to -> all[to] = updates.data[at] }
        return A(x.shape, x.isInteger) { all[it] }
    }

    /** For each tuple of indices, the first element that it names. */
    private fun tuples(x: A, indices: A, batchAxes: Int): List<Int> {
        val length = indices.shape.last()
        val numbers = indices.integers()
        val count = A.count(indices.shape.dropLast(1))
        val batch = A.count(x.shape.take(batchAxes))
        val after = A.count(x.shape.drop(batchAxes + length))
        return List(count) { at ->
            after * (0 until length).fold(if (batchAxes == 0) 0 else at / (count / batch)) { from, k ->
                val size = x.shape[batchAxes + k]
                val index = numbers[at * length + k]
                require(index in -size until size) { "an index is outside of an array" }
                from * size + if (index < 0) index + size else index
            }
        }
    }

    fun gatherNd(x: A, indices: A, batchAxes: Int): A {
        val from = tuples(x, indices, batchAxes)
        val rest = x.shape.drop(batchAxes + indices.shape.last())
        val after = A.count(rest)
        return A((indices.shape.dropLast(1) + rest).toIntArray(), x.isInteger) { x.data[from[it / after] + it % after] }
    }

    fun scatterNd(x: A, indices: A, updates: A): A {
        val all = x.data.copyOf()
        val after = A.count(x.shape.drop(indices.shape.last()))
        tuples(x, indices, 0).forEachIndexed { at, to -> updates.data.copyInto(all, to, at * after, (at + 1) * after) }
        return A(x.shape, x.isInteger) { all[it] }
    }

    fun compress(x: A, condition: A, axis: Int) = taken(x, condition.data.indices.filter { condition.data[it] != 0.0 }, axis)

    fun nonzero(x: A): A {
        val found = x.data.indices.filter { x.data[it] != 0.0 }
        return A(intArrayOf(x.rank, found.size), true) {
            val axis = it / found.size
            (found[it % found.size] / x.after(axis) % x.shape[axis]).toDouble()
        }
    }

    /** Makes `count` elements of each row along an axis, by a function of the row. */
    private fun byRow(x: A, axis: Int, count: Int, isInteger: Boolean, function: (List<Double>) -> List<Double>): A {
        val after = x.after(axis)
        val size = x.shape[axis]
        val rows = List(A.count(x.shape.take(axis)) * after) { row ->
            function(List(size) { x.data[(row / after * size + it) * after + row % after] })
        }
        val shape = x.shape.copyOf().also { it[axis] = count }
        return A(shape, isInteger) { rows[it / after / count * after + it % after][it / after % count] }
    }

    /** The largest or smallest elements along an axis in order, and their indices. */
    fun topK(x: A, most: A, number: Int, largest: Boolean): List<A> {
        val axis = x.axis(number)
        val count = most.integers()[0]
        require(count <= x.shape[axis]) { "an array has too few elements" }
        fun order(row: List<Double>) = row.indices.sortedBy { if (largest) -row[it] else row[it] }.take(count)
        return listOf(
            byRow(x, axis, count, x.isInteger) { row -> order(row).map { row[it] } },
            byRow(x, axis, count, true) { row -> order(row).map { it.toDouble() } }
        )
    }

    fun argMax(x: A, number: Int, keep: Boolean, isLast: Boolean): A {
        val axis = x.axis(number)
        val best = byRow(x, axis, 1, true) { row ->
            val most = row.reduce { a, b -> maxOf(a, b) }
            listOf((if (isLast) row.lastIndexOf(most) else row.indexOf(most)).toDouble())
        }
        return if (keep) best else squeeze(best, intArrayOf(axis))
    }

    fun argMin(x: A, axis: Int, keep: Boolean, isLast: Boolean) = argMax(negative(x), axis, keep, isLast)

    /** Joins the elements along axes, all if the list is empty. */
    private fun reduced(x: A, axes: IntArray, keep: Boolean, function: (List<Double>) -> Double): A {
        val along = if (axes.isEmpty()) x.shape.indices.toList() else axes.map { x.axis(it) }.sorted()
        val turned = transpose(x, (x.shape.indices.filter { it !in along } + along).toIntArray()).data.asList()
        val count = A.count(along.map { x.shape[it] })
        val sizes = x.shape.mapIndexed { at, size -> if (at in along) 1 else size }.toIntArray()
        val result = A(sizes, x.isInteger) { function(turned.subList(it * count, (it + 1) * count)) }
        return if (keep || along.isEmpty()) result else squeeze(result, along.toIntArray())
    }

    fun reduceMax(x: A, axes: IntArray, keep: Boolean) = reduced(x, axes, keep) { it.fold(Double.NEGATIVE_INFINITY) { a, b -> maxOf(a, b) } }

    fun reduceMin(x: A, axes: IntArray, keep: Boolean) = reduced(x, axes, keep) { it.fold(Double.POSITIVE_INFINITY) { a, b -> minOf(a, b) } }

    fun reduceSum(x: A, axes: IntArray, keep: Boolean) = reduced(x, axes, keep) { it.sum() }

    fun reduceMean(x: A, axes: IntArray, keep: Boolean) = reduced(x, axes, keep) { it.sum() / it.size }

    fun reduceProd(x: A, axes: IntArray, keep: Boolean) = reduced(x, axes, keep) { it.fold(1.0) { a, b -> a * b } }

    fun reduceL2(x: A, axes: IntArray, keep: Boolean) = reduced(x, axes, keep) { row -> sqrt(row.fold(0.0) { sum, it -> sum + it * it }) }

    fun softmax(x: A, axis: Int): A {
        val powers = exp(subtract(x, reduceMax(x, intArrayOf(axis), true)))
        return divide(powers, reduceSum(powers, intArrayOf(axis), true))
    }

    fun cumSum(x: A, along: A, isExclusive: Boolean, isReverse: Boolean): A {
        val axis = x.axis(along.integers()[0])
        return byRow(x, axis, x.shape[axis], x.isInteger) { row ->
            var sum = 0.0
            val sums = (if (isReverse) row.reversed() else row).map { sum += it; if (isExclusive) sum - it else sum }
            if (isReverse) sums.reversed() else sums
        }
    }

    fun numbers(start: A, limit: A, step: A): A {
        val count = maxOf(0.0, ceil((limit.data[0] - start.data[0]) / step.data[0])).toInt()
        return A(intArrayOf(count), start.isInteger) { start.data[0] + it * step.data[0] }
    }

    fun filled(sizes: A, element: A) = A(sizes.integers(), element.isInteger) { element.data[0] }

    /** A border of one element; negative amounts remove elements. */
    fun pad(x: A, amounts: A, element: A, axes: IntArray) = axes.foldIndexed(x) { at, result, axis ->
        val before = amounts.integers()[at]
        val after = amounts.integers()[at + axes.size]
        val kept = taken(result, (maxOf(0, -before) until result.shape[x.axis(axis)] - maxOf(0, -after)).toList(), axis)
        fun border(width: Int) = A(kept.shape.copyOf().also { it[x.axis(axis)] = maxOf(0, width) }, x.isInteger) { element.data[0] }
        concat(listOf(border(before), kept, border(after)), axis)
    }

    /** The elements of images at points from -1 to 1, between the four next ones; 0 outside. */
    fun gridSample(x: A, grid: A, cornersAreEnds: Boolean): A {
        val (images, channels, height, width) = x.shape.asList()
        val count = grid.shape[1] * grid.shape[2]
        fun scaled(at: Double, size: Int) = if (cornersAreEnds) (at + 1) / 2 * (size - 1) else ((at + 1) * size - 1) / 2
        return A(intArrayOf(images, channels, grid.shape[1], grid.shape[2]), false) {
            val plane = it / count
            val at = 2 * (plane / channels * count + it % count)
            val u = scaled(grid.data[at], width)
            val v = scaled(grid.data[at + 1], height)
            var sum = 0.0
            for (corner in 0 until 4) {
                val column = floor(u) + corner % 2
                val row = floor(v) + corner / 2
                if (column >= 0 && column < width && row >= 0 && row < height) {
                    val near = x.data[(plane * height + row.toInt()) * width + column.toInt()]
                    sum += near * (1 - kotlin.math.abs(u - column)) * (1 - kotlin.math.abs(v - row))
                }
            }
            sum
        }
    }

    /** A box by its lower and upper corner. */
    private class Corners(val low: FloatArray, val high: FloatArray) {
        fun area(): Float = (high[0] - low[0]) * (high[1] - low[1])

        fun hides(other: Corners, overlap: Float): Boolean {
            val w = minOf(high[0], other.high[0]) - maxOf(low[0], other.low[0])
            val h = minOf(high[1], other.high[1]) - maxOf(low[1], other.low[1])
            val shared = maxOf(w, 0f) * maxOf(h, 0f)
            return area() > 0 && other.area() > 0 && shared > overlap * (area() + other.area() - shared)
        }
    }

    /** Of two corners in any order, or of a centre and a size. */
    private fun corners(boxes: A, at: Int, areCentres: Boolean): Corners {
        val box = boxes.data
        val first = FloatArray(2) { (if (areCentres) box[at + it] - box[at + it + 2] / 2 else box[at + it]).toFloat() }
        val second = FloatArray(2) { (if (areCentres) box[at + it] + box[at + it + 2] / 2 else box[at + it + 2]).toFloat() }
        return Corners(FloatArray(2) { minOf(first[it], second[it]) }, FloatArray(2) { maxOf(first[it], second[it]) })
    }

    /** The indices of the best boxes, without those that lie over a better one. */
    private fun selected(boxes: List<Corners>, scores: List<Double>, most: Int, overlap: Float, threshold: Double, first: Int): List<Int> {
        val order = scores.indices.sortedByDescending { scores[it] }
        val kept = ArrayList<Int>()
        for (index in if (first > 0) order.take(first) else order) {
            if (kept.size == most || !(scores[index] > threshold)) break
            if (kept.none { boxes[it].hides(boxes[index], overlap) }) kept.add(index)
        }
        return kept
    }

    /** Rows of the indices of an image, a class and a box. */
    fun nonMaxSuppression(boxes: A, scores: A, most: A?, overlap: A?, threshold: A?, areCentres: Boolean): A {
        val (images, classes, count) = scores.shape.asList()
        val rows = (0 until images).flatMap { image ->
            val corners = List(count) { corners(boxes, (image * count + it) * 4, areCentres) }
            (0 until classes).flatMap { label ->
                val row = scores.data.asList().subList((image * classes + label) * count, (image * classes + label + 1) * count)
                val bound = threshold?.data?.get(0) ?: Double.NEGATIVE_INFINITY
                selected(corners, row, most?.integers()?.get(0) ?: 0, overlap?.data?.get(0)?.toFloat() ?: 0f, bound, 0).flatMap { listOf(image, label, it) }
            }
        }
        return A(intArrayOf(rows.size / 3, 3), true) { rows[it].toDouble() }
    }

    private class Best(val score: Double, val label: Int, val box: Int)

    /**
     * The number of selected boxes of each image, the boxes, their scores and classes, as TensorRT's plugins select them.
     *
     * Boxes [image, box, 4] or [image, box, classes or 1, 4], scores [image, box, class]; `first`: how many of a class are compared, 0 for all; `background`: a
     * class that is left out, or -1. What is not selected is 0, and its class is -1.
     */
    fun bestBoxes(boxes: A, scores: A, threshold: Double, overlap: Double, most: Int, first: Int, background: Int, areCentres: Boolean): List<A> {
        val (images, count, classes) = scores.shape.asList()
        val sets = if (boxes.rank == 4) boxes.shape[2] else 1
        val found = (0 until images).map { image ->
            (0 until classes).filter { it != background }.flatMap { label ->
                fun box(at: Int) = ((image * count + at) * sets + minOf(label, sets - 1)) * 4
                val row = List(count) { scores.data[(image * count + it) * classes + label] }
                val corners = List(count) { corners(boxes, box(it), areCentres) }
                val kept = selected(corners, row, most, overlap.toFloat(), threshold.toFloat().toDouble(), first)
                kept.map { Best(row[it], label, box(it)) }
            }.sortedByDescending { it.score }.take(most)
        }
        fun best(at: Int) = found[at / most].getOrNull(at % most)
        return listOf(
            A(intArrayOf(images, 1), true) { found[it].size.toDouble() },
            A(intArrayOf(images, most, 4), false) { best(it / 4)?.let { best -> boxes.data[best.box + it % 4] } ?: 0.0 },
            A(intArrayOf(images, most), false) { best(it)?.score ?: 0.0 },
            A(intArrayOf(images, most), true) { best(it)?.label?.toDouble() ?: -1.0 }
        )
    }
}
