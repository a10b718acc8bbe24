"""Spectrogram and InverseSpectrogram."""

import itertools

import numpy as np
from core import Case

# Imaginary parts of nearly real signals, and quotients of small factors, have large errors [inversespectrogram.cpp,
# forward].
ANGLES = "angles of some n_fft radians are rounded to float32"
# n_fft, hoplen and winlen; None is the default, n_fft. hoplen is always given.
WINDOWS = [(1, 1, None), (2, 1, None), (4, 1, None), (8, 3, 5), (9, 2, 9), (16, 4, 10), (16, 20, 16), (15, 7, 12), (64, 16, None), (100, 25, 75)]


def cases():
    rng = np.random.default_rng(4)
    for (n_fft, hop, window), kind, center, normalized in itertools.product(WINDOWS, (0, 1, 2), (0, 1), (0, 1, 2)):
        # The factor of a single sample of Hann is 0, so there is no norm.
        if normalized == 2 and kind == 1 and n_fft == 1:
            continue
        shared = f"0={n_fft} 2={hop}" + f" 3={window}" * (window is not None) + f" 4={kind}" * (kind > 0)
        shared += f" 5={center}" * (center == 0) + f" 7={normalized}" * (normalized > 0)
        for power, onesided in itertools.product((0, 1, 2), (0, 1)):
            pad = int(rng.integers(0, 3))
            params = f"{shared} 1={power}" + f" 6={pad}" * (pad != 2) + f" 8={onesided}" * (onesided == 0)
            length = rng.integers(n_fft // 2 + 1 if center else n_fft, n_fft + 40)
            yield Case("Spectrogram", params, [], [rng.standard_normal(length).astype(np.float32)])
        for returns, frequencies in itertools.product((0, 1, 2), sorted({n_fft // 2 + 1, n_fft})):
            spectrum = rng.standard_normal((frequencies, rng.integers(2, 6), 2)).astype(np.float32)
            yield Case("InverseSpectrogram", f"{shared} 1={returns}", [], [spectrum], tolerance=5e-4, why=ANGLES)
