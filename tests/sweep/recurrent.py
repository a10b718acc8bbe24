"""LSTM, GRU and RNN."""

import itertools

import numpy as np
from core import Case, raw

# The number of gates, of biases and of states.
LAYERS = {"LSTM": (4, 4, 2), "GRU": (3, 4, 1), "RNN": (1, 1, 1)}


def cases():
    rng = np.random.default_rng(2)
    sizes = [(1, 1, 1), (5, 3, 4), (4, 8, 8), (7, 5, 3), (3, 16, 12), (6, 9, 17)]
    for (name, (gates, biases, states)), (steps, inputs, output), direction, is_int8 in itertools.product(LAYERS.items(), sizes, (0, 1, 2), (0, 1)):
        for cell in {"LSTM": (output, output + 3, 8)}.get(name, (output,)):
            weights = weights_of(rng, gates, biases, (inputs, output, cell), direction, is_int8)
            params = f"0={output} 1={weights[0].size}" + f" 2={direction}" * (direction > 0) + f" 3={cell}" * (cell != output) + " 8=2" * is_int8
            sequence = rng.standard_normal((steps, inputs)).astype(np.float32)
            if is_int8:
                # A row of zeros has no scale.
                sequence[steps // 2] *= steps % 2
            rows = 2 if direction == 2 else 1
            initial = [rng.uniform(-1, 1, (rows, size)).astype(np.float32) for size in (output, cell)[:states]]
            for bottoms, tops in itertools.product(([sequence], [sequence, *initial]), (1, 1 + states)):
                yield Case(name, params, weights, bottoms, tops)
            if rows == 1:
                # States of a single direction with other numbers of axes keep them.
                for axes in (1, 3):
                    shaped = [state.reshape((1,) * (axes - 1) + (-1,)) for state in initial]
                    yield Case(name, params, weights, [sequence, *shaped], 1 + states)


def weights_of(rng, gates, biases, sizes, direction, is_int8):
    inputs, output, cell = sizes
    rows = (2 if direction == 2 else 1, gates * cell)
    bias = rng.standard_normal((rows[0], biases, cell)).astype(np.float32)
    projection = [rng.standard_normal((rows[0], output, cell)).astype(np.float32) / 2] * (cell != output)
    if is_int8:
        factors = [rng.integers(-127, 128, (*rows, columns)).astype(np.int8) for columns in (inputs, output)]
        scales = [raw(rng.uniform(90, 300, rows)) for _ in factors]
        return [factors[0], bias, factors[1], *projection, *scales]
    factors = [rng.standard_normal((*rows, columns)).astype(np.float32) / 2 for columns in (inputs, output)]
    return [factors[0], bias, factors[1], *projection]
