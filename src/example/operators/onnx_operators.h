// Operators of ONNX on arrays, for the nodes of a model that follow its net.
//
// Written next to a program of --example, for C++11 or later. Axes may count from the end.

#ifndef ONNX_OPERATORS_H
#define ONNX_OPERATORS_H

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace op {

typedef long long Int;
typedef std::vector<Int> Shape;

// Elements in row-major order. Each element is a double, which holds floats, integers up to 2^53, and truth values.
struct Array
{
    Shape shape;
    std::vector<double> data;
    // Whether the elements are integers or truth values.
    bool is_integer;

    Array() : is_integer(false) {}
    Array(const Shape& shape, bool is_integer) : shape(shape), is_integer(is_integer) { data.resize(count(shape)); }
    Array(const Shape& shape, const std::vector<double>& data, bool is_integer) : shape(shape), data(data), is_integer(is_integer) {}

    static size_t count(const Shape& shape) { return count(shape, 0, shape.size()); }
    // The number of elements of all indices of some axes.
    static size_t count(const Shape& shape, size_t first, size_t end)
    {
        size_t all = 1;
        for (size_t axis = first; axis < end; axis++)
            all *= (size_t)shape[axis];
        return all;
    }
    Int rank() const { return (Int)shape.size(); }
    Int axis(Int number) const { return number < 0 ? number + rank() : number; }
    Int at(size_t index) const { return (Int)data.at(index); }
    // The number of elements before and after an axis: of all indices of the axes there.
    size_t before(Int number) const { return count(shape, 0, (size_t)number); }
    size_t after(Int number) const { return count(shape, (size_t)number + 1, shape.size()); }
    // Floats are rounded to 32 bits, as in the model.
    void set(size_t index, double element) { data[index] = is_integer ? element : (double)(float)element; }
};

typedef std::vector<Array> Arrays;

// What an omitted input is.
static const Array* const NONE = nullptr;

inline Array floats(const Shape& shape, const std::vector<double>& elements)
{
    Array result(shape, false);
    for (size_t i = 0; i < elements.size(); i++)
        result.set(i, elements[i]);
    return result;
}

inline Array integers(const Shape& shape, const Shape& elements)
{
    return Array(shape, std::vector<double>(elements.begin(), elements.end()), true);
}

inline Array truths(const Shape& shape, const Shape& elements) { return integers(shape, elements); }

template<typename Function>
Array unary(const Array& x, bool is_integer, Function function)
{
    Array result(x.shape, is_integer);
    for (size_t i = 0; i < x.data.size(); i++)
        result.set(i, function(x.data[i]));
    return result;
}

inline Array as_float(const Array& x) { return unary(x, false, [](double x) { return x; }); }
inline Array as_integer(const Array& x) { return unary(x, true, [](double x) { return std::trunc(x); }); }
inline Array as_truth(const Array& x) { return unary(x, true, [](double x) { return x != 0 ? 1. : 0.; }); }

inline bool is_true(const Array& x) { return x.data.at(0) != 0; }

// The common shape of two arrays.
inline Shape common(const Shape& a, const Shape& b)
{
    Shape shape(std::max(a.size(), b.size()), 1);
    for (size_t i = 0; i < shape.size(); i++)
    {
        const Int m = i < a.size() ? a[a.size() - 1 - i] : 1, n = i < b.size() ? b[b.size() - 1 - i] : 1;
        if (m != n && m != 1 && n != 1)
            throw std::runtime_error("the shapes of two arrays do not fit");
        shape[shape.size() - 1 - i] = m == 1 ? n : m;
    }
    return shape;
}

// The array whose axes have other steps in the elements of x.
inline Array walked(const Array& x, const Shape& shape, const Shape& steps)
{
    Array result(shape, x.is_integer);
    for (size_t i = 0; i < result.data.size(); i++)
    {
        size_t left = i, from = 0;
        for (size_t axis = shape.size(); axis-- > 0; left /= (size_t)shape[axis])
            from += left % (size_t)shape[axis] * (size_t)steps[axis];
        result.data[i] = x.data[from];
    }
    return result;
}

inline Array expand_to(const Array& x, const Shape& shape)
{
    if (x.shape == shape)
        return x;
    Shape steps(shape.size() - x.shape.size(), 0);
    for (Int axis = 0; axis < x.rank(); axis++)
        steps.push_back(x.shape[(size_t)axis] == 1 ? 0 : (Int)x.after(axis));
    return walked(x, shape, steps);
}

template<typename Function>
Array binary(const Array& a, const Array& b, bool is_integer, Function function)
{
    const Shape shape = common(a.shape, b.shape);
    const Array x = expand_to(a, shape), y = expand_to(b, shape);
    Array result(shape, is_integer);
    for (size_t i = 0; i < result.data.size(); i++)
        result.set(i, function(x.data[i], y.data[i]));
    return result;
}

template<typename Function>
Array arithmetic(const Array& a, const Array& b, Function function)
{
    return binary(a, b, a.is_integer && b.is_integer, function);
}

template<typename Function>
Array comparison(const Array& a, const Array& b, Function function)
{
    return binary(a, b, true, [&](double a, double b) { return function(a, b) ? 1. : 0.; });
}

inline Array add(const Array& a, const Array& b) { return arithmetic(a, b, [](double a, double b) { return a + b; }); }
inline Array subtract(const Array& a, const Array& b) { return arithmetic(a, b, [](double a, double b) { return a - b; }); }
inline Array multiply(const Array& a, const Array& b) { return arithmetic(a, b, [](double a, double b) { return a * b; }); }
// The quotient of integers is rounded toward 0.
inline Array divide(const Array& a, const Array& b)
{
    const bool is_integer = a.is_integer && b.is_integer;
    return arithmetic(a, b, [=](double a, double b) { return is_integer ? std::trunc(a / b) : a / b; });
}
// The remainder, with the sign of the dividend or of the divisor.
inline Array modulo(const Array& a, const Array& b, bool like_dividend)
{
    return arithmetic(a, b, [=](double a, double b) { return like_dividend ? std::fmod(a, b) : a - b * std::floor(a / b); });
}
inline Array power(const Array& a, const Array& b) { return binary(a, b, a.is_integer, [](double a, double b) { return std::pow(a, b); }); }
inline Array minimum(const Array& a, const Array& b) { return arithmetic(a, b, [](double a, double b) { return std::min(a, b); }); }
inline Array maximum(const Array& a, const Array& b) { return arithmetic(a, b, [](double a, double b) { return std::max(a, b); }); }
inline Array logical_and(const Array& a, const Array& b) { return comparison(a, b, [](double a, double b) { return a != 0 && b != 0; }); }
inline Array logical_or(const Array& a, const Array& b) { return comparison(a, b, [](double a, double b) { return a != 0 || b != 0; }); }
inline Array logical_xor(const Array& a, const Array& b) { return comparison(a, b, [](double a, double b) { return a != b; }); }
inline Array logical_not(const Array& x) { return unary(x, true, [](double x) { return x == 0 ? 1. : 0.; }); }
inline Array is_nan(const Array& x) { return unary(x, true, [](double x) { return std::isnan(x) ? 1. : 0.; }); }
inline Array is_infinite(const Array& x) { return unary(x, true, [](double x) { return std::isinf(x) ? 1. : 0.; }); }
inline Array equal(const Array& a, const Array& b) { return comparison(a, b, [](double a, double b) { return a == b; }); }
inline Array greater(const Array& a, const Array& b) { return comparison(a, b, [](double a, double b) { return a > b; }); }
inline Array greater_or_equal(const Array& a, const Array& b) { return comparison(a, b, [](double a, double b) { return a >= b; }); }
inline Array less(const Array& a, const Array& b) { return comparison(a, b, [](double a, double b) { return a < b; }); }
inline Array less_or_equal(const Array& a, const Array& b) { return comparison(a, b, [](double a, double b) { return a <= b; }); }

inline Array where(const Array& condition, const Array& a, const Array& b)
{
    const Shape shape = common(condition.shape, common(a.shape, b.shape));
    const Array is = expand_to(condition, shape), x = expand_to(a, shape), y = expand_to(b, shape);
    Array result(shape, a.is_integer);
    for (size_t i = 0; i < result.data.size(); i++)
        result.data[i] = is.data[i] != 0 ? x.data[i] : y.data[i];
    return result;
}

inline Array absolute(const Array& x) { return unary(x, x.is_integer, [](double x) { return std::fabs(x); }); }
inline Array negative(const Array& x) { return unary(x, x.is_integer, [](double x) { return -x; }); }
inline Array sign(const Array& x) { return unary(x, x.is_integer, [](double x) { return (double)((x > 0) - (x < 0)); }); }
inline Array floor(const Array& x) { return unary(x, x.is_integer, [](double x) { return std::floor(x); }); }
inline Array ceil(const Array& x) { return unary(x, x.is_integer, [](double x) { return std::ceil(x); }); }
inline Array round_to_even(const Array& x) { return unary(x, x.is_integer, [](double x) { return std::nearbyint(x); }); }
inline Array sqrt(const Array& x) { return unary(x, false, [](double x) { return std::sqrt(x); }); }
inline Array exp(const Array& x) { return unary(x, false, [](double x) { return std::exp(x); }); }
inline Array log(const Array& x) { return unary(x, false, [](double x) { return std::log(x); }); }
inline Array sin(const Array& x) { return unary(x, false, [](double x) { return std::sin(x); }); }
inline Array cos(const Array& x) { return unary(x, false, [](double x) { return std::cos(x); }); }
inline Array reciprocal(const Array& x) { return unary(x, false, [](double x) { return 1 / x; }); }
inline Array sigmoid(const Array& x) { return unary(x, false, [](double x) { return 1 / (1 + std::exp(-x)); }); }
inline Array tanh(const Array& x) { return unary(x, false, [](double x) { return std::tanh(x); }); }
inline Array relu(const Array& x) { return unary(x, x.is_integer, [](double x) { return std::max(x, 0.); }); }

// The elements between two bounds, each of which may be NONE.
inline Array clip(const Array& x, const Array* low, const Array* high)
{
    const Array above = low ? maximum(x, *low) : x;
    return high ? minimum(above, *high) : above;
}

inline Array shape(const Array& x)
{
    return integers({x.rank()}, x.shape);
}

inline Array size(const Array& x) { return integers({}, {(Int)x.data.size()}); }

// Without zero_is_a_size, 0 is the size that x has there.
inline Array reshape(const Array& x, const Array& sizes, bool zero_is_a_size)
{
    Array result = x;
    result.shape.clear();
    Int free = -1, known = 1;
    for (size_t i = 0; i < sizes.data.size(); i++)
    {
        Int size = sizes.at(i);
        if (size == 0 && !zero_is_a_size)
            size = x.shape.at(i);
        if (size < 0)
            free = (Int)i;
        else
            known *= size;
        result.shape.push_back(size);
    }
    if (free >= 0)
        result.shape[(size_t)free] = known > 0 ? (Int)x.data.size() / known : 0;
    if (Array::count(result.shape) != x.data.size())
        throw std::runtime_error("an array has no such shape");
    return result;
}

inline Array flatten(const Array& x, Int axis)
{
    Array result = x;
    const Int at = axis < 0 ? axis + x.rank() : axis;
    const Int rows = (Int)x.before(at);
    result.shape = {rows, rows ? (Int)x.data.size() / rows : 0};
    return result;
}

// Without these axes of size 1; all of them if the list is empty.
inline Array squeeze(const Array& x, const Shape& axes)
{
    Array result = x;
    result.shape.clear();
    for (Int i = 0; i < x.rank(); i++)
    {
        bool is_listed = axes.empty() && x.shape[(size_t)i] == 1;
        for (Int axis : axes)
            is_listed = is_listed || x.axis(axis) == i;
        if (!is_listed)
            result.shape.push_back(x.shape[(size_t)i]);
    }
    return result;
}

inline Array unsqueeze(const Array& x, const Shape& axes)
{
    Array result = x;
    const Int rank = x.rank() + (Int)axes.size();
    result.shape.assign((size_t)rank, 0);
    for (Int axis : axes)
        result.shape[(size_t)(axis < 0 ? axis + rank : axis)] = 1;
    size_t from = 0;
    for (Int& size : result.shape)
        size = size == 0 ? x.shape[from++] : 1;
    return result;
}

// The axes in another order, the reverse one if the list is empty.
inline Array transpose(const Array& x, Shape order)
{
    for (Int axis = x.rank(); (Int)order.size() < x.rank();)
        order.push_back(--axis);
    Shape shape, steps;
    for (Int axis : order)
    {
        shape.push_back(x.shape[(size_t)axis]);
        steps.push_back((Int)x.after(axis));
    }
    return walked(x, shape, steps);
}

inline Shape sizes_of(const Array& x) { return Shape(x.data.begin(), x.data.end()); }

inline Array expand(const Array& x, const Array& sizes) { return expand_to(x, common(x.shape, sizes_of(sizes))); }

// The elements at some indices of an axis.
inline Array taken(const Array& x, const std::vector<Int>& indices, Int number)
{
    const Int axis = x.axis(number), size = x.shape.at((size_t)axis);
    const size_t before = x.before(axis), after = x.after(axis);
    Array result;
    result.is_integer = x.is_integer;
    result.shape = x.shape;
    result.shape[(size_t)axis] = (Int)indices.size();
    for (size_t i = 0; i < before; i++)
    {
        for (Int index : indices)
        {
            if (index < -size || index >= size)
                throw std::runtime_error("an index is outside of an array");
            const size_t from = (i * (size_t)size + (size_t)(index < 0 ? index + size : index)) * after;
            result.data.insert(result.data.end(), x.data.begin() + (Int)from, x.data.begin() + (Int)(from + after));
        }
    }
    return result;
}

inline std::vector<Int> span(Int start, Int end, Int step)
{
    std::vector<Int> indices;
    for (Int i = start; step > 0 ? i < end : i > end; i += step)
        indices.push_back(i);
    return indices;
}

inline Array tile(const Array& x, const Array& repeats)
{
    Array result = x;
    for (size_t axis = 0; axis < repeats.data.size(); axis++)
    {
        std::vector<Int> indices;
        for (Int i = 0; i < repeats.at(axis) * x.shape[axis]; i++)
            indices.push_back(i % x.shape[axis]);
        result = taken(result, indices, (Int)axis);
    }
    return result;
}

inline Array concat(const Arrays& parts, Int number)
{
    const Int axis = parts.at(0).axis(number);
    const size_t before = parts[0].before(axis);
    Array result;
    result.is_integer = parts[0].is_integer;
    result.shape = parts[0].shape;
    result.shape[(size_t)axis] = 0;
    for (const Array& part : parts)
        result.shape[(size_t)axis] += part.shape[(size_t)axis];
    for (size_t i = 0; i < before; i++)
    {
        for (const Array& part : parts)
        {
            const Int size = (Int)(part.data.size() / std::max(before, (size_t)1));
            result.data.insert(result.data.end(), part.data.begin() + (Int)i * size, part.data.begin() + ((Int)i + 1) * size);
        }
    }
    return result;
}

inline Arrays split(const Array& x, const Array& sizes, Int axis)
{
    Arrays parts;
    Int start = 0;
    for (size_t i = 0; i < sizes.data.size(); i++)
    {
        parts.push_back(taken(x, span(start, start + sizes.at(i), 1), axis));
        start += sizes.at(i);
    }
    return parts;
}

inline Array slice_of(const Array& x, const Array& starts, const Array& ends, const Shape& axes, const Array& steps)
{
    Array result = x;
    for (size_t i = 0; i < axes.size(); i++)
    {
        const Int size = x.shape.at((size_t)x.axis(axes[i])), step = steps.at(i);
        // An end beyond the array is the end of the array.
        const double first = starts.data[i] < 0 ? starts.data[i] + (double)size : starts.data[i];
        const double last = ends.data[i] < 0 ? ends.data[i] + (double)size : ends.data[i];
        const double least = step > 0 ? 0 : -1, most = step > 0 ? (double)size : (double)size - 1;
        const Int start = (Int)std::min(std::max(first, least), most), end = (Int)std::min(std::max(last, least), (double)size);
        result = taken(result, span(start, end, step), axes[i]);
    }
    return result;
}

// The elements from a diagonal on, or up to it; 0 elsewhere.
inline Array trilu(const Array& x, const Array* diagonal, bool is_upper)
{
    Array result = x;
    const Int rows = x.shape.at(x.shape.size() - 2), columns = x.shape.back(), shift = diagonal ? diagonal->at(0) : 0;
    for (size_t i = 0; i < result.data.size(); i++)
    {
        const Int row = (Int)i / columns % rows, column = (Int)i % columns;
        if (is_upper ? column - row < shift : column - row > shift)
            result.data[i] = 0;
    }
    return result;
}

inline Array gather(const Array& x, const Array& indices, Int number)
{
    const Int axis = x.axis(number);
    Array result = taken(x, sizes_of(indices), axis);
    Shape shape(x.shape.begin(), x.shape.begin() + axis);
    shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
    shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
    result.shape = shape;
    return result;
}

// For each element of indices along an axis, its offset in x.
inline std::vector<size_t> offsets(const Array& x, const Array& indices, Int axis)
{
    std::vector<size_t> all(indices.data.size());
    for (size_t i = 0; i < all.size(); i++)
    {
        size_t left = i, from = 0;
        for (Int at = x.rank(); at-- > 0; left /= (size_t)indices.shape[(size_t)at])
        {
            const Int size = x.shape[(size_t)at];
            Int index = (Int)(left % (size_t)indices.shape[(size_t)at]);
            if (at == axis)
                index = indices.at(i) < 0 ? indices.at(i) + size : indices.at(i);
            if (index < 0 || index >= size)
                throw std::runtime_error("an index is outside of an array");
            from += (size_t)index * x.after(at);
        }
        all[i] = from;
    }
    return all;
}

inline Array gather_elements(const Array& x, const Array& indices, Int axis)
{
    const std::vector<size_t> from = offsets(x, indices, x.axis(axis));
    Array result(indices.shape, x.is_integer);
    for (size_t i = 0; i < from.size(); i++)
        result.data[i] = x.data[from[i]];
    return result;
}

inline Array scatter_elements(const Array& x, const Array& indices, const Array& updates, Int axis)
{
    const std::vector<size_t> to = offsets(x, indices, x.axis(axis));
    Array result = x;
    for (size_t i = 0; i < to.size(); i++)
        result.data[to[i]] = updates.data[i];
    return result;
}

// For each tuple of indices, the first element that it names, and the number of those that follow.
inline std::vector<size_t> tuples(const Array& x, const Array& indices, Int batch_axes, size_t& after)
{
    const Int length = indices.shape.back();
    after = Array::count(x.shape, (size_t)(batch_axes + length), x.shape.size());
    const size_t count = indices.data.size() / (size_t)std::max(length, (Int)1);
    const size_t batch = x.before(batch_axes);
    std::vector<size_t> all(count);
    for (size_t i = 0; i < count; i++)
    {
        size_t from = batch_axes == 0 ? 0 : i / (count / batch);
        for (Int k = 0; k < length; k++)
        {
            const Int size = x.shape[(size_t)(batch_axes + k)], index = indices.at(i * (size_t)length + (size_t)k);
            if (index < -size || index >= size)
                throw std::runtime_error("an index is outside of an array");
            from = from * (size_t)size + (size_t)(index < 0 ? index + size : index);
        }
        all[i] = from * after;
    }
    return all;
}

inline Array gather_nd(const Array& x, const Array& indices, Int batch_axes)
{
    size_t after;
    const std::vector<size_t> from = tuples(x, indices, batch_axes, after);
    Shape shape(indices.shape.begin(), indices.shape.end() - 1);
    shape.insert(shape.end(), x.shape.begin() + batch_axes + indices.shape.back(), x.shape.end());
    Array result(shape, x.is_integer);
    for (size_t i = 0; i < from.size(); i++)
        std::copy_n(x.data.begin() + (Int)from[i], after, result.data.begin() + (Int)(i * after));
    return result;
}

inline Array scatter_nd(const Array& x, const Array& indices, const Array& updates)
{
    size_t after;
    const std::vector<size_t> to = tuples(x, indices, 0, after);
    Array result = x;
    for (size_t i = 0; i < to.size(); i++)
        std::copy_n(updates.data.begin() + (Int)(i * after), after, result.data.begin() + (Int)to[i]);
    return result;
}

inline Array compress(const Array& x, const Array& condition, Int axis)
{
    std::vector<Int> indices;
    for (size_t i = 0; i < condition.data.size(); i++)
    {
        if (condition.data[i] != 0)
            indices.push_back((Int)i);
    }
    return taken(x, indices, axis);
}

inline Array nonzero(const Array& x)
{
    std::vector<size_t> found;
    for (size_t i = 0; i < x.data.size(); i++)
    {
        if (x.data[i] != 0)
            found.push_back(i);
    }
    Array result({x.rank(), (Int)found.size()}, true);
    for (Int axis = 0; axis < x.rank(); axis++)
    {
        for (size_t i = 0; i < found.size(); i++)
            result.data[(size_t)axis * found.size() + i] = (double)(found[i] / x.after(axis) % (size_t)x.shape[(size_t)axis]);
    }
    return result;
}

// Calls a function with the elements of each row along an axis, and the offset of the row in a result of `count` elements a row.
template<typename Function>
void each_row(const Array& x, Int axis, Int count, Function function)
{
    const size_t size = (size_t)x.shape.at((size_t)axis), after = x.after(axis), before = x.before(axis);
    std::vector<double> row(size);
    for (size_t i = 0; i < before; i++)
    {
        for (size_t k = 0; k < after; k++)
        {
            for (size_t at = 0; at < size; at++)
                row[at] = x.data[(i * size + at) * after + k];
            function(row, i * (size_t)count * after + k, after);
        }
    }
}

// The largest or smallest elements along an axis in order, and their indices.
inline Arrays top_k(const Array& x, const Array& most, Int number, bool largest)
{
    const Int axis = x.axis(number), count = most.at(0);
    if (count > x.shape[(size_t)axis])
        throw std::runtime_error("an array has too few elements");
    Shape shape = x.shape;
    shape[(size_t)axis] = count;
    Arrays results = {Array(shape, x.is_integer), Array(shape, true)};
    each_row(x, axis, count, [&](const std::vector<double>& row, size_t to, size_t step) {
        std::vector<size_t> order(row.size());
        for (size_t i = 0; i < order.size(); i++)
            order[i] = i;
        std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return largest ? row[a] > row[b] : row[a] < row[b]; });
        for (size_t i = 0; i < (size_t)count; i++)
        {
            results[0].data[to + i * step] = row[order[i]];
            results[1].data[to + i * step] = (double)order[i];
        }
    });
    return results;
}

inline Array arg_max(const Array& x, Int number, bool keep, bool is_last)
{
    const Int axis = x.axis(number);
    Array result;
    result.is_integer = true;
    result.shape = x.shape;
    result.shape[(size_t)axis] = 1;
    result.data.resize(Array::count(result.shape));
    each_row(x, axis, 1, [&](const std::vector<double>& row, size_t to, size_t) {
        size_t best = 0;
        for (size_t i = 1; i < row.size(); i++)
        {
            if (row[i] > row[best] || (is_last && row[i] == row[best]))
                best = i;
        }
        result.data[to] = (double)best;
    });
    return keep ? result : squeeze(result, {axis});
}

inline Array arg_min(const Array& x, Int axis, bool keep, bool is_last) { return arg_max(negative(x), axis, keep, is_last); }

// Joins the elements along axes, all if the list is empty.
template<typename Function>
Array reduced(const Array& x, Shape axes, bool keep, Function function)
{
    const bool is_all = axes.empty();
    for (Int axis = 0; is_all && axis < x.rank(); axis++)
        axes.push_back(axis);
    for (Int& axis : axes)
        axis = x.axis(axis);
    std::sort(axes.begin(), axes.end());
    Shape order, sizes = x.shape;
    for (Int axis = 0; axis < x.rank(); axis++)
    {
        if (!std::binary_search(axes.begin(), axes.end(), axis))
            order.push_back(axis);
    }
    order.insert(order.end(), axes.begin(), axes.end());
    size_t count = 1;
    for (Int axis : axes)
    {
        count *= (size_t)x.shape[(size_t)axis];
        sizes[(size_t)axis] = 1;
    }
    const Array turned = transpose(x, order);
    Array result(sizes, x.is_integer);
    for (size_t i = 0; i < result.data.size(); i++)
        result.set(i, function(turned.data.begin() + (Int)(i * count), turned.data.begin() + (Int)((i + 1) * count)));
    return keep || axes.empty() ? result : squeeze(result, axes);
}

typedef std::vector<double>::const_iterator Element;

inline Array reduce_max(const Array& x, const Shape& axes, bool keep)
{
    return reduced(x, axes, keep, [](Element a, Element b) { return a == b ? -HUGE_VAL : *std::max_element(a, b); });
}

inline Array reduce_min(const Array& x, const Shape& axes, bool keep)
{
    return reduced(x, axes, keep, [](Element a, Element b) { return a == b ? HUGE_VAL : *std::min_element(a, b); });
}

inline Array reduce_sum(const Array& x, const Shape& axes, bool keep)
{
    return reduced(x, axes, keep, [](Element a, Element b) { double sum = 0; while (a != b) sum += *a++; return sum; });
}

inline Array reduce_mean(const Array& x, const Shape& axes, bool keep)
{
    return reduced(x, axes, keep, [](Element a, Element b) { const double count = (double)(b - a); double sum = 0; while (a != b) sum += *a++; return sum / count; });
}

inline Array reduce_prod(const Array& x, const Shape& axes, bool keep)
{
    return reduced(x, axes, keep, [](Element a, Element b) { double product = 1; while (a != b) product *= *a++; return product; });
}

inline Array reduce_l2(const Array& x, const Shape& axes, bool keep)
{
    return reduced(x, axes, keep, [](Element a, Element b) { double sum = 0; for (; a != b; ++a) sum += *a * *a; return std::sqrt(sum); });
}

inline Array softmax(const Array& x, Int axis)
{
    const Array powers = exp(subtract(x, reduce_max(x, {axis}, true)));
    return divide(powers, reduce_sum(powers, {axis}, true));
}

inline Array cum_sum(const Array& x, const Array& along, bool is_exclusive, bool is_reverse)
{
    const Int axis = x.axis(along.at(0));
    Array result(x.shape, x.is_integer);
    each_row(x, axis, x.shape[(size_t)axis], [&](const std::vector<double>& row, size_t to, size_t step) {
        double sum = 0;
        for (size_t i = 0; i < row.size(); i++)
        {
            const size_t at = is_reverse ? row.size() - 1 - i : i;
            result.set(to + at * step, is_exclusive ? sum : sum + row[at]);
            sum += row[at];
        }
    });
    return result;
}

inline Array numbers(const Array& start, const Array& limit, const Array& step)
{
    const double count = std::max(0., std::ceil((limit.data.at(0) - start.data.at(0)) / step.data.at(0)));
    Array result({(Int)count}, start.is_integer);
    for (size_t i = 0; i < result.data.size(); i++)
        result.set(i, start.data[0] + (double)i * step.data[0]);
    return result;
}

inline Array filled(const Array& sizes, const Array& element)
{
    Array result(sizes_of(sizes), element.is_integer);
    std::fill(result.data.begin(), result.data.end(), element.data.at(0));
    return result;
}

// A border of one element; negative amounts remove elements.
inline Array pad(const Array& x, const Array& amounts, const Array& element, const Shape& axes)
{
    Array result = x;
    for (size_t i = 0; i < axes.size(); i++)
    {
        const Int axis = x.axis(axes[i]), before = amounts.at(i), after = amounts.at(i + axes.size());
        result = taken(result, span(std::max((Int)0, -before), result.shape[(size_t)axis] - std::max((Int)0, -after), 1), axis);
        Array border = result;
        border.is_integer = x.is_integer;
        Arrays parts;
        for (Int width : {before, (Int)0, after})
        {
            border.shape[(size_t)axis] = std::max((Int)0, width);
            border.data.assign(Array::count(border.shape), element.data.at(0));
            parts.push_back(parts.size() == 1 ? result : border);
        }
        result = concat(parts, axis);
    }
    return result;
}

// The elements of images at points from -1 to 1, between the four next ones; 0 outside.
inline Array grid_sample(const Array& x, const Array& grid, bool corners_are_ends)
{
    const Int channels = x.shape.at(1), height = x.shape.at(2), width = x.shape.at(3);
    Array result({x.shape[0], channels, grid.shape.at(1), grid.shape.at(2)}, false);
    const size_t count = (size_t)(grid.shape[1] * grid.shape[2]);
    const auto scaled = [=](double at, Int size) { return corners_are_ends ? (at + 1) / 2 * (double)(size - 1) : ((at + 1) * (double)size - 1) / 2; };
    for (size_t i = 0; i < result.data.size(); i++)
    {
        const size_t plane = i / count, image = plane / (size_t)channels, at = 2 * (image * count + i % count);
        const double u = scaled(grid.data[at], width), v = scaled(grid.data[at + 1], height);
        double sum = 0;
        for (int corner = 0; corner < 4; corner++)
        {
            const double column = std::floor(u) + corner % 2, row = std::floor(v) + corner / 2;
            if (column >= 0 && column < (double)width && row >= 0 && row < (double)height)
                sum += x.data[(plane * (size_t)height + (size_t)row) * (size_t)width + (size_t)column] * (1 - std::fabs(u - column)) * (1 - std::fabs(v - row));
        }
        result.set(i, sum);
    }
    return result;
}

// A box by its lower and upper corner.
struct Corners
{
    float low[2], high[2];

    // Of two corners in any order, or of a centre and a size.
    Corners(const double* box, bool are_centres)
    {
        for (int i = 0; i < 2; i++)
        {
            const float a = (float)(are_centres ? box[i] - box[i + 2] / 2 : box[i]), b = (float)(are_centres ? box[i] + box[i + 2] / 2 : box[i + 2]);
            low[i] = std::min(a, b), high[i] = std::max(a, b);
        }
    }

    float area() const { return (high[0] - low[0]) * (high[1] - low[1]); }

    bool hides(const Corners& other, float overlap) const
    {
        const float w = std::min(high[0], other.high[0]) - std::max(low[0], other.low[0]);
        const float h = std::min(high[1], other.high[1]) - std::max(low[1], other.low[1]);
        const float shared = std::max(w, 0.f) * std::max(h, 0.f);
        return area() > 0 && other.area() > 0 && shared > overlap * (area() + other.area() - shared);
    }
};

// The indices of the best boxes, without those that lie over a better one.
inline std::vector<size_t> selected(const std::vector<Corners>& boxes, const std::vector<double>& scores, size_t most, float overlap, double threshold, size_t first)
{
    std::vector<size_t> order, kept;
    for (size_t i = 0; i < scores.size(); i++)
        order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    if (first > 0 && first < order.size())
        order.resize(first);
    for (size_t index : order)
    {
        if (kept.size() == most || !(scores[index] > threshold))
            break;
        bool is_hidden = false;
        for (size_t better : kept)
            is_hidden = is_hidden || boxes[better].hides(boxes[index], overlap);
        if (!is_hidden)
            kept.push_back(index);
    }
    return kept;
}

// Rows of the indices of an image, a class and a box.
inline Array non_max_suppression(const Array& boxes, const Array& scores, const Array* most, const Array* overlap, const Array* threshold, bool are_centres)
{
    const size_t classes = (size_t)scores.shape.at(1), count = (size_t)scores.shape.at(2);
    Array result({0, 3}, true);
    for (size_t image = 0; image < (size_t)scores.shape[0]; image++)
    {
        std::vector<Corners> corners;
        for (size_t i = 0; i < count; i++)
            corners.push_back(Corners(&boxes.data[(image * count + i) * 4], are_centres));
        for (size_t label = 0; label < classes; label++)
        {
            const auto row = scores.data.begin() + (Int)((image * classes + label) * count);
            const std::vector<size_t> kept = selected(corners, std::vector<double>(row, row + (Int)count), most ? (size_t)most->data.at(0) : 0, overlap ? (float)overlap->data.at(0) : 0.f, threshold ? threshold->data.at(0) : -HUGE_VAL, 0);
            for (size_t box : kept)
                result.data.insert(result.data.end(), {(double)image, (double)label, (double)box});
        }
    }
    result.shape[0] = (Int)result.data.size() / 3;
    return result;
}

// The number of selected boxes of each image, the boxes, their scores and classes, as TensorRT's plugins select them.
//
// Boxes [image, box, 4] or [image, box, classes or 1, 4], scores [image, box, class]; `first`: how many of a class are compared, 0 for all; `background`: a class
// that is left out, or -1. What is not selected is 0, and its class is -1.
inline Arrays best_boxes(const Array& boxes, const Array& scores, double threshold, double overlap, Int most, Int first, Int background, bool are_centres)
{
    const size_t images = (size_t)scores.shape.at(0), count = (size_t)scores.shape.at(1), classes = (size_t)scores.shape.at(2);
    const size_t sets = boxes.rank() == 4 ? (size_t)boxes.shape[2] : 1;
    const Int rows = (Int)images;
    Arrays results = {Array({rows, 1}, true), Array({rows, most, 4}, false), Array({rows, most}, false), Array({rows, most}, true)};
    std::fill(results[3].data.begin(), results[3].data.end(), -1.);
    for (size_t image = 0; image < images; image++)
    {
        // The score, the class, and the first element of each box.
        struct Best { double score; size_t label, box; };
        std::vector<Best> found;
        for (size_t label = 0; label < classes; label++)
        {
            if ((Int)label == background)
                continue;
            std::vector<Corners> corners;
            std::vector<double> row;
            const auto box = [&](size_t i) { return ((image * count + i) * sets + std::min(label, sets - 1)) * 4; };
            for (size_t i = 0; i < count; i++)
            {
                corners.push_back(Corners(&boxes.data[box(i)], are_centres));
                row.push_back(scores.data[(image * count + i) * classes + label]);
            }
            for (size_t i : selected(corners, row, (size_t)most, (float)overlap, (double)(float)threshold, (size_t)first))
                found.push_back({row[i], label, box(i)});
        }
        std::stable_sort(found.begin(), found.end(), [](const Best& a, const Best& b) { return a.score > b.score; });
        found.resize(std::min(found.size(), (size_t)most));
        results[0].data[image] = (double)found.size();
        for (size_t i = 0; i < found.size(); i++)
        {
            const size_t to = image * (size_t)most + i;
            std::copy_n(boxes.data.begin() + (Int)found[i].box, 4, results[1].data.begin() + (Int)(4 * to));
            results[2].data[to] = found[i].score;
            results[3].data[to] = (double)found[i].label;
        }
    }
    return results;
}

} // namespace op

#endif
