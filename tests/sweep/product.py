"""InnerProduct, Gemm, MatMul, Einsum and Embed."""

import itertools

import numpy as np
from core import Case, raw

FUSED = [(1, []), (2, [0.1]), (3, [-0.5, 0.75]), (4, []), (5, []), (6, [0.2, 0.5])]


def cases():
    rng = np.random.default_rng(1)
    for family in (inner_product, gemm, gemm_int8, gemm_blocks, mat_mul, einsum, embed):
        yield from family(rng)


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def int8(rng, *shape):
    return rng.integers(-127, 128, shape).astype(np.int8)


def inner_product(rng):
    # A matrix whose width is the number of inputs is mapped by rows, any other bottom as a vector.
    shapes = [(7,), (16,), (1, 12), (3, 5), (5, 8), (8, 16), (3, 4, 5), (4, 3, 2), (2, 3, 2, 2), (8, 2, 1, 3)]
    for shape, outputs, bias in itertools.product(shapes, (1, 3, 8, 16), (0, 1)):
        weights = {shape[-1] if len(shape) == 2 else 0, int(np.prod(shape))} - {0}
        for inputs in sorted(weights):
            weight = normal(rng, outputs * inputs)
            biases = [raw(normal(rng, outputs))] * bias
            yield Case("InnerProduct", f"0={outputs} 1={bias} 2={weight.size}", [weight, *biases], [normal(rng, *shape)])
    for (kind, params), shape in itertools.product(FUSED, [(9,), (4, 16)]):
        weight = normal(rng, 8 * shape[-1])
        listed = f" -23310={len(params)}," + ",".join(map(str, params)) if params else ""
        yield Case("InnerProduct", f"0=8 1=1 2={weight.size} 9={kind}{listed}", [weight, raw(normal(rng, 8))], [normal(rng, *shape)])
    weight = normal(rng, 6 * 10).astype(np.float16)
    yield Case("InnerProduct", f"0=6 2={weight.size}", [weight], [normal(rng, 10)])
    shapes = [(7,), (16,), (5, 8), (3, 4, 5), (2, 2, 2, 3)]
    for shape, outputs, bias, kind in itertools.product(shapes, (1, 3, 8, 16), (0, 1), (0, 1)):
        inputs = shape[-1] if len(shape) == 2 else int(np.prod(shape))
        scales = rng.uniform(20, 90, outputs).astype(np.float32)
        scales[0] = 0 if outputs == 3 else scales[0]
        weights = [int8(rng, outputs * inputs), *[raw(normal(rng, outputs))] * bias, raw(scales), raw([33.5])]
        # Some numbers are beyond the range of int8.
        yield Case("InnerProduct", f"0={outputs} 1={bias} 2={outputs * inputs} 8=1 9={kind}", weights, [2 * normal(rng, *shape)])


def summands(rng, m, n):
    """The bottoms C of a Gemm."""
    yield None
    for shape in [(1,), (n,), (m,), (m, 1), (m, n), (1, n)]:
        yield normal(rng, *shape)


def constant_summands(rng, m, n):
    """The param and the weight of the constants C of a Gemm."""
    yield "6=1 10=-1", []
    for kind, shape in enumerate([(1,), (m,), (m, 1), (m, n), (1, n)]):
        yield f"6=1 10={kind}", [normal(rng, *shape)]


def gemm(rng):
    sizes = [(1, 1, 1), (1, 5, 7), (3, 4, 5), (4, 8, 16), (8, 3, 2), (16, 16, 9), (5, 1, 8), (13, 17, 12)]
    for (m, n, k), (trans_a, trans_b, transpose) in itertools.product(sizes, itertools.product((0, 1), repeat=3)):
        a, b = normal(rng, *((k, m) if trans_a else (m, k))), normal(rng, *((n, k) if trans_b else (k, n)))
        params = f"2={trans_a} 3={trans_b} 14={transpose}"
        yield Case("Gemm", params, [], [a, b])
        yield Case("Gemm", f"{params} 4=1 7={m} 9={k}", [a], [b])
        yield Case("Gemm", f"{params} 5=1 8={n} 9={k}", [b], [a])
    flags, constants = [(0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1)], itertools.product((0, 1), repeat=2)
    each = itertools.product(sizes[2::2], flags, constants)
    for (m, n, k), (trans_a, trans_b, transpose), (constant_a, constant_b) in each:
        a, b = normal(rng, *((k, m) if trans_a else (m, k))), normal(rng, *((n, k) if trans_b else (k, n)))
        held, given = [a] * constant_a + [b] * constant_b, [a] * (1 - constant_a) + [b] * (1 - constant_b)
        factors = rng.choice([0.0, 1.0, -0.75, 2.5], 2)
        params = f"0={factors[0]} 1={factors[1]} 2={trans_a} 3={trans_b} 4={constant_a} 5={constant_b}"
        params += f" 7={m} 8={n} 9={k} 14={transpose}"
        for c in summands(rng, m, n):
            if given or c is not None:
                yield Case("Gemm", params, held, given + [c] * (c is not None))
        for constant, c in constant_summands(rng, m, n):
            if given:
                yield Case("Gemm", f"{params} {constant}", held + c, given)
    # Rows along c, and a single row.
    for trans_a, trans_b in itertools.product((0, 1), repeat=2):
        a, b = normal(rng, *((6, 1, 5) if trans_a else (5, 1, 6))), normal(rng, *((8, 1, 6) if trans_b else (6, 1, 8)))
        yield Case("Gemm", f"2={trans_a} 3={trans_b}", [], [a, b])
        yield Case("Gemm", f"2={trans_a} 3={trans_b}", [], [a, b[:, 0].copy()])
    yield Case("Gemm", "5=1 8=4 9=6", [normal(rng, 6, 4)], [normal(rng, 6)])
    yield Case("Gemm", "3=1 4=1 7=4 9=6", [normal(rng, 4, 6)], [normal(rng, 6)])


def gemm_int8(rng):
    sizes = [(1, 5, 7), (8, 8, 16), (13, 9, 12)]
    for (m, n, k), (trans_a, trans_b, transpose) in itertools.product(sizes, itertools.product((0, 1), repeat=3)):
        b = normal(rng, *((n, k) if trans_b else (k, n)))
        params = f"0=1.5 1=0.5 2={trans_a} 3={trans_b} 7={m} 8={n} 9={k} 14={transpose} 18=2"
        a = int8(rng, *((k, m) if trans_a else (m, k)))
        scales = raw(rng.uniform(20, 90, m))
        for constant, c in constant_summands(rng, m, n):
            yield Case("Gemm", f"{params} 4=1 {constant}", [a, *c, scales], [b])
        # A without a scale of its own is rounded by rows.
        for c in summands(rng, m, n):
            others = [b] + [c] * (c is not None)
            yield Case("Gemm", f"{params} 4=1", [a, scales], others)
            yield Case("Gemm", params, [], [normal(rng, *a.shape), *others])
    yield Case("Gemm", "3=1 18=2", [], [np.zeros((3, 4), np.float32), normal(rng, 5, 4)])
    yield Case("Gemm", "18=2", [], [normal(rng, 5, 4), np.zeros((4, 3), np.float32)])


def packed(levels, bits):
    """Rows of signed integers, each from a byte on, the low bits first; all are padded to words."""
    spread = (levels[..., None].astype(np.int64) >> np.arange(bits) & 1).reshape(len(levels), -1)
    data = np.packbits(spread.astype(np.uint8), axis=1, bitorder="little").tobytes()
    return "raw", np.frombuffer(data + b"\0" * (-len(data) % 4), np.float32)


def gemm_blocks(rng):
    sizes = [(1, 3, 32), (3, 4, 40), (5, 8, 128), (2, 7, 131), (8, 16, 200)]
    for bits, (code, size), (m, n, k) in itertools.product((4, 6, 8), enumerate((32, 64, 128)), sizes):
        half = 1 << bits - 1
        b = packed(rng.integers(-half, half, (n, k)), bits)
        scales = raw(rng.uniform(1, 9, (n, -(-k // size))) * rng.choice([-1, 1]))
        params = f"0=1.5 1=0.5 3=1 5=1 7={m} 8={n} 9={k} 18={100 * bits + code}"
        a = normal(rng, m, k)
        # With 8 bits the other factor is rounded as well. A bottom of one axis is read incorrectly then.
        if bits < 8:
            yield Case("Gemm", params, [b, scales], [normal(rng, k)])
        yield Case("Gemm", params, [b, scales], [a])
        if k in (40, 131):
            for c in summands(rng, m, n):
                yield Case("Gemm", params, [b, scales], [a] + [c] * (c is not None))
            for constant, c in constant_summands(rng, m, n):
                yield Case("Gemm", f"{params} {constant}", [b, *c, scales], [a])


def mat_mul(rng):
    batches = [
        ((), ()), ((3,), ()), ((), (4,)), ((3,), (3,)), ((1,), (8,)), ((4,), (1,)), ((2, 3), ()), ((), (3, 2)), ((2, 3), (3,)),
        ((4,), (2, 4)), ((2, 1), (1, 3)), ((1, 3), (2, 1)), ((2, 3), (2, 3)), ((1,), (2, 3)),
    ]
    sizes = [(1, 1, 1), (3, 5, 4), (8, 4, 16), (5, 17, 7)]
    for (a_batch, b_batch), (m, n, k), transposed in itertools.product(batches, sizes, (0, 1)):
        b = (n, k) if transposed else (k, n)
        yield Case("MatMul", f"0={transposed}", [], [normal(rng, *a_batch, m, k), normal(rng, *b_batch, *b)])
    for (n, k), transposed, batch in itertools.product([(1, 1), (5, 4), (8, 16)], (0, 1), [(), (3,), (2, 4)]):
        b = (n, k) if transposed else (k, n)
        yield Case("MatMul", f"0={transposed}", [], [normal(rng, k), normal(rng, *batch, *b)])
        yield Case("MatMul", f"0={transposed}", [], [normal(rng, *batch, n, k), normal(rng, k)])
        yield Case("MatMul", f"0={transposed}", [], [normal(rng, k), normal(rng, k)])
    yield Case("MatMul", "", [], [normal(rng, 3, 4), normal(rng, 4, 5)])


def einsum(rng):
    # The axes of a top are i, j, k and l in this order: the runtime has no other.
    equations = [
        "ii", "i->i", "ij->i", "ij->ij", "ji->ij", "ii->i", "ijk->i", "kji->ijk", "ijk->ij", "ijkl->ijkl", "lkji->ijkl",
        "ijlk->ij", "i,i->i", "i,j->ij", "ij,j->i", "ik,kj->ij", "ikm,jkm->ijk", "ijm,ikm->ijk", "ijlm,ikm->ijkl",
        "ik,kl,lj->ij", "ix,xj->ij", "mnoi->i", "ijk,k,j->i", "j,i->ij", "iij->ij",
    ]
    sizes = [dict(zip("ijklmnox", range(2, 10))), dict.fromkeys("ijlmnox", 4) | {"k": 8}]
    for equation, sizes in itertools.product(equations, sizes):
        operands = equation.split("->")[0].split(",")
        bottoms = [normal(rng, *(sizes[letter] for letter in letters)) for letters in operands]
        yield Case("Einsum", f"-23300={len(equation)}," + ",".join(str(ord(letter)) for letter in equation), [], bottoms)


def embed(rng):
    for rows, width, bias, count in itertools.product((1, 5, 30), (1, 3, 8, 16), (0, 1), (1, 4, 7)):
        # Indices beyond the table are those of its first or last row.
        indices = rng.integers(-2, rows + 2, count).astype(np.int32)
        params = f"0={width} 1={rows} 2={bias} 3={rows * width}"
        biases = [raw(normal(rng, width))] * bias
        yield Case("Embed", params, [normal(rng, rows * width), *biases], [indices])
        yield Case("Embed", f"{params} 18=1", [int8(rng, rows * width), *biases, raw([17.5])], [indices])
