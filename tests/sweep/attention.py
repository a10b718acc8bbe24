"""MultiHeadAttention, SDPA and RotaryEmbed."""

import itertools

import numpy as np
from core import Case, raw


def cases():
    rng = np.random.default_rng(3)
    for family in (multi_head, sdpa, rotary_embed):
        yield from family(rng)


def normal(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def masks(rng, heads, queries, keys):
    """Masks, of which some hide keys."""
    yield None
    for shape in [(queries, keys), (heads, queries, keys)]:
        yield normal(rng, *shape)
        hidden = rng.random(shape) < 0.4
        hidden[..., 0] = False
        # A row that hides all keys is 0 / 0; the runtime returns 0.
        yield np.where(hidden, np.float32(-np.inf), np.float32(0))
        yield np.where(hidden, np.float32(-1e30), np.float32(0.5))


def multi_head(rng):
    sizes, lengths, dims = [(4, 1), (6, 2), (8, 8), (24, 3)], [(1, 5), (4, 8), (7, 13)], [(0, 0, 0), (5, 0, 0), (8, 12, 3)]
    for (embed, heads), (queries, keys), kinds, (qdim, kdim, vdim) in itertools.product(sizes, lengths, (1, 2, 3), dims):
        qdim, kdim, vdim = qdim or embed, kdim or embed, vdim or embed
        if kinds == 1:
            keys, kdim, vdim = queries, qdim, qdim
        if kinds == 2:
            vdim = kdim
        weights = []
        for rows, columns in [(embed, qdim), (embed, kdim), (embed, vdim), (qdim, embed)]:
            weights += [normal(rng, rows, columns) / np.float32(columns**0.5), raw(normal(rng, rows))]
        bottoms = [normal(rng, *shape) for shape in [(queries, qdim), (keys, kdim), (keys, vdim)][:kinds]]
        params = f"0={embed} 1={heads} 2={embed * qdim}" + f" 3={kdim}" * (kdim != embed) + f" 4={vdim}" * (vdim != embed)
        for mask in masks(rng, heads, queries, keys):
            # The scale is always given.
            scale = 1.0 if mask is None else rng.uniform(0.1, 1)
            masked = mask is not None
            yield Case("MultiHeadAttention", f"{params} 5={int(masked)} 6={scale:.6f}", weights, bottoms + [mask] * masked)


def sdpa(rng):
    # Not kv_cache: the runtime's caches have a private layout, and it does not read plain ones [NCNN.md].
    shared, lengths = [(1, 1), (2, 2), (4, 2), (6, 2), (8, 1), (16, 4)], [(1, 5), (4, 8), (7, 13), (16, 16)]
    widths = [(1, 3), (5, 7), (8, 8), (16, 12)]
    for (heads, groups), (queries, keys), (width, out) in itertools.product(shared, lengths, widths):
        bottoms = [normal(rng, heads, queries, width), normal(rng, groups, keys, width), normal(rng, groups, keys, out)]
        yield Case("SDPA", "", [], bottoms)
        for mask in masks(rng, heads, queries, keys):
            scale = rng.choice(["", " 6=0.0", " 6=0.25", " 6=1.5"])
            yield Case("SDPA", f"5={int(mask is not None)}{scale}", [], bottoms + [mask] * (mask is not None))
        yield Case("SDPA", "5=1", [], [*bottoms, normal(rng, 1, queries, keys)])


def rotary_embed(rng):
    for interleaved, heads, rows, width in itertools.product(("", "0=0", "0=1"), ((), (1,), (3,), (8,)), (1, 5, 8), (2, 6, 8, 16, 34)):
        angles = rng.uniform(-4, 4, (rows, width // 2)).astype(np.float32)
        yield Case("RotaryEmbed", interleaved, [], [normal(rng, *heads, rows, width), np.cos(angles), np.sin(angles)])
