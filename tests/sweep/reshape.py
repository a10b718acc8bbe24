"""Layers that change the axes, and expressions of sizes."""

import itertools

import numpy as np

import core

# Sizes that pack by 4, 8 and 16 and that do not, of each number of axes.
SHAPES = [
    (1,), (12,), (16,), (30,), (64,),
    (1, 6), (3, 5), (4, 7), (8, 3), (16, 15),
    (1, 3, 4), (3, 5, 3), (4, 3, 6), (8, 3, 5), (16, 2, 3), (32, 1, 13),
    (1, 2, 3, 3), (3, 2, 3, 5), (4, 3, 2, 3), (8, 2, 1, 3), (16, 2, 2, 13),
]
IDS = {"w": 0, "h": 1, "c": 2, "d": 11}
NAMES = {1: "w", 2: "hw", 3: "chw", 4: "cdhw"}


def blob(shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) - 3


def array(number, values):
    return f"{-23300 - number}={','.join(map(str, [len(values), *values]))}"


def splits(rng, total, axes):
    """Sizes of so many axes with this product."""
    sizes = []
    for _ in range(axes - 1):
        sizes.append(int(rng.choice([size for size in range(1, total + 1) if total % size == 0])))
        total //= sizes[-1]
    return [int(size) for size in rng.permutation([*sizes, total])]


def sizes_text(sizes):
    return " ".join(f"{IDS[name]}={size}" for name, size in zip(NAMES[len(sizes)], sizes))


def reshapes():
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        mat = blob(shape)
        of_name = dict(zip(NAMES[len(shape)], shape))
        for axes in (1, 2, 3, 4):
            for _ in range(2):
                sizes = splits(rng, mat.size, axes)
                yield core.Case("Reshape", sizes_text(sizes), bottoms=[mat])
                for axis in range(axes):
                    rest = [-1 if index == axis else size for index, size in enumerate(sizes)]
                    yield core.Case("Reshape", sizes_text(rest), bottoms=[mat])
                listed = ",".join(map(str, reversed(sizes)))
                yield core.Case("Reshape", f'6="{listed}"', bottoms=[mat])
            # 0 is the size of the axis with the same name, and 1 if there is none.
            for zeros in itertools.product((False, True), repeat=axes):
                kept = [of_name.get(name, 1) if zero else 0 for name, zero in zip(NAMES[axes], zeros)]
                total = int(np.prod([size for size in kept if size]))
                # A kernel takes the packs of channels for channels [reshape_x86.cpp, forward].
                packs = len(shape) == 4 and shape[0] % 4 == 0 and axes == 3 and zeros[0]
                if mat.size % total == 0 and not all(zeros) and not packs:
                    others = splits(rng, mat.size // total, zeros.count(False))
                    sizes = [0 if zero else others.pop() for zero in zeros]
                    yield core.Case("Reshape", sizes_text(sizes), bottoms=[mat])
                    sizes[zeros.index(False)] = -1
                    yield core.Case("Reshape", sizes_text(sizes), bottoms=[mat])
                    yield core.Case("Reshape", f'6="{",".join(map(str, reversed(sizes)))}"', bottoms=[mat])
        yield core.Case("Reshape", sizes_text([0] * len(shape)), bottoms=[mat])


# Values of expressions over the sizes of four bottoms.
BOTTOMS = [(3, 2, 4, 49), (7,), (2, 3), (2, 3, 4)]
EXPRESSIONS = [
    # Sizes, of which those of absent axes are 1.
    "0w", "0h", "0d", "0c", "0n", "+(1h,1w)", "+(1d,1c)", "+(2w,2d)", "*(2w,3c)", "+(3d,3w)",
    # Numbers.
    "24", "12.0", "+(2.5,2.75)", "*(1e1,0.5)", "*(1e1,2)", "*(2.0e0,//(7,2))", "+12", "-(-3,-9)",
    # Whole and real numbers.
    "+(7,5)", "-(9,0h)", "*(0c,2)", "//(0w,2)", "abs(//(-15,2))", "abs(//(-15.5,2))", "//(0w,2.0)", "//(7.5,2)",
    "max(0w,0h)", "min(0w,0h)", "max(0c,15.5)", "min(0w,15.5)", "/(0w,5)", "/(0w,4)", "+(/(0w,2),0.5)",
    "abs(-5)", "abs(-5.5)", "neg(-5)", "neg(-5.75)", "square(3)", "square(2.45)",
    "+(5,sign(-3))", "+(5,sign(0))", "+(5,sign(0.5))", "+(5,sign(-0.5))",
    "trunc(5.9)", "neg(trunc(-5.9))", "ceil(5.1)", "neg(ceil(-5.9))", "floor(5.9)", "neg(floor(-5.1))", "trunc(6)",
    "round(5.5)", "round(5.4)", "neg(round(-4.5))", "round(2.5)", "//(trunc(5.5),2)",
    # Functions.
    "*(10,acos(0.5))", "*(10,acosh(1.5))", "*(9,asin(0.7))", "*(11,asinh(0.7))", "*(9,atan(0.7))", "*(9,atanh(0.6))",
    "*(9,cos(0.6))", "*(9,cosh(0.6))", "*(9,erf(0.6))", "*(3,exp(0.6))", "*(3,log(16.5))", "*(3,log10(400))",
    "*(16,rsqrt(4))", "rsqrt(0.01)", "*(9,sin(0.6))", "*(9,sinh(0.6))", "sqrt(0w)", "sqrt(36)", "reciprocal(0.08)",
    "*(9,tan(0.6))", "*(9,tanh(0.6))", "*(5,atan2(1,0.4))", "*(5,atan2(1,-0.4))", "pow(2,3)", "pow(3,1.5)",
    "fmod(17,6)", "neg(fmod(-17.5,6))", "remainder(17,6)", "*(3,logaddexp(1,1.5))",
    # The remainder is the divisor instead of 0 if the signs differ [expression.cpp, eval_list_expression].
    "remainder(-17,6)", "neg(remainder(17,-6))", "remainder(-17.5,6)",
    # Bits.
    "and(13,6)", "or(1,4)", "xor(13,8)", "lshift(3,2)", "rshift(0w,1)", "neg(rshift(-9,1))", "and(-7,13)",
    # Nested ones.
    "+(*(0c,//(0h,3)),-(0w,6))", "//(+(0w,1),//(0h,3))", "//(-(+(0w,*(2,1)),3),2)", "*(3,/(1,3))", "/(*(0w,0.1),0.1)",
    "+(trunc(/(0w,2)),floor(sqrt(10)))", "*(0.1,*(0.1,1000))",
    # Without parentheses, which are for the eye only.
    "+,*,0h,2,4",
    # The rounding of each step to float32.
    *(f"*(/({size},49),49)" for size in range(2, 49)), *(f"/(*({size},0.1),0.1)" for size in range(2, 49)),
]


def expressions():
    """The size of a Crop shows the value of an expression."""
    bottoms = [blob(shape) for shape in BOTTOMS]
    for text in EXPRESSIONS:
        used = [digit for digit in "123" if any(digit + name in text for name in "whdc")]
        yield core.Case("Crop", f'19="0" 20="{text}" 21="-1"', bottoms=bottoms[: 1 + max(map(int, used), default=0)])
    for shape, text, others in (
        ((4, 6, 5), "*(0w,0h),0c", []),
        ((4, 6, 5), "0w,*(0h,0c)", []),
        ((16, 6), "*(0w,2),2,//(0h,4)", []),
        ((8, 6, 5), "//(0w,5),1,30,-1", []),
        ((3, 4, 2, 5), "0w,*(0h,0d),0c", []),
        ((24,), "//(0w,4),//(0w,6)", []),
        ((24,), "0,1", []),
        ((4, 6), "-1,1w", [(3,)]),
        ((4, 6), "1w,2h,-1", [(3,), (2, 5)]),
        ((16, 12), "1w,1h,1d,1c", [(2, 4, 3, 8)]),
        ((16, 12), "*(1h,2),1w,-1", [(9, 2, 4)]),
        ((5, 12), "1w,0,-1", [(4,)]),
    ):
        yield core.Case("Reshape", f'6="{text}"', bottoms=[blob(shape), *map(blob, others)])


def squeezes():
    for shape in [
        *SHAPES[::4], (1, 1), (5, 1), (1, 6), (8, 1), (1, 1, 1), (4, 1, 1), (1, 4, 1), (1, 1, 4), (8, 1, 3), (3, 5, 1),
        (1, 1, 1, 1), (1, 4, 1, 1), (8, 1, 1, 3), (1, 1, 1, 5), (3, 1, 2, 1), (1, 1, 16, 1), (16, 2, 1, 3), (1, 2, 1, 3),
    ]:
        mat = blob(shape)
        for names in itertools.chain.from_iterable(itertools.combinations("whcd", count) for count in range(5)):
            yield core.Case("Squeeze", " ".join(f"{IDS[name]}=1" for name in names), bottoms=[mat])
        for count in range(1, len(shape) + 1):
            for axes in itertools.combinations(range(len(shape)), count):
                yield core.Case("Squeeze", array(3, axes), bottoms=[mat])
                yield core.Case("Squeeze", array(3, [axis - len(shape) for axis in axes]), bottoms=[mat])
        # The axes precede.
        yield core.Case("Squeeze", f"0=1 {array(3, [0])}", bottoms=[mat])


def expansions():
    for shape in SHAPES:
        mat = blob(shape)
        for count in range(0, 5 - len(shape)):
            axes = len(shape) + count
            for chosen in itertools.combinations(range(axes), count):
                yield core.Case("ExpandDims", array(3, chosen) if chosen else "", bottoms=[mat])
                if chosen:
                    yield core.Case("ExpandDims", array(3, [axis - axes for axis in reversed(chosen)]), bottoms=[mat])


def cases():
    for family in (reshapes, expressions, squeezes, expansions):
        yield from family()
