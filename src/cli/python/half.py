"""Predicts the error of a net in float16, and chooses what computes in float32, for the script that this text precedes.

The net runs in float32. For each blob that a runtime of half precision would hold, its effect on the outputs is measured: once with
the blob rounded to float16, and once with noise in what its layer reads, as large as the error of the layer's sums in float16. Effects
add as squares, which is the usual error of a choice. Its largest one is that of runs with all the rounding and noise that it leaves.
"""

# The error of a sum of products in float16, relative to its terms and the square root of their number; and how many times as large it is
# after the transform of Winograd with tiles of 8 by 8. Fitted to layers of 4 to 288 channels in ncnn 20261020 on ARM64.
SUM, TRANSFORM = 0.00028, 6
# The error of a term by the rounding of its weight to float16, which remains if sums are in float32.
WEIGHT = 0.0002
# The time of a transformed convolution, and of a layer in float32, relative to a layer without a transform in float16.
TRANSFORMED, FLOAT32 = 0.4, 2
# The time of a conversion to float32, relative to that of the net: among choices of nearly the same time, the one of fewer layers.
CONVERSION = 0.01
# Effects are measured on the first samples.
MAX_MEASURED = 4
# The runs of a choice, of all samples together, and the choices that are tried.
RUNS, TRIES = 8, 8
# In place of infinities and NaN.
USELESS = 1e6


def effect(extractor, pairs, expected):
    """The largest difference of an output from the expected one, relative to its largest magnitude."""
    largest = 0.0
    for pair in pairs:
        wanted = expected[pair["blob"]]
        got = np.array(extracted(extractor, pair["blob"])).astype(np.float64)
        finite = np.isfinite(wanted)
        if got.shape != wanted.shape or not np.isfinite(got[finite]).all():
            return USELESS
        scale = np.abs(wanted[finite]).max(initial=0) + 1e-6
        largest = max(largest, float(np.abs(got - wanted)[finite].max(initial=0) / scale))
    return min(largest, USELESS)


def rounded_to_half(mat):
    with np.errstate(over="ignore"):
        return np.array(mat).astype(np.float16).astype(np.float32)


def noise_of(blob, mode):
    """The error of a layer's sums relative to their terms, without a transform."""
    return WEIGHT if mode == "precise" else SUM * math.sqrt(blob["terms"])


def is_transformed(blob, mode):
    return blob["is_roughly_transformed"] and mode == "default"


def with_noise(mat, blob, mode, generator):
    """What a layer reads, with noise as large as the error of its sums."""
    bottom = np.array(mat)
    noise = generator.standard_normal(bottom.shape, dtype=np.float32)
    noise *= np.float32(noise_of(blob, mode))
    # Tiles of a transform are summed as a whole, so their error depends on the largest elements around.
    noise *= np.float32(TRANSFORM * np.sqrt(np.square(bottom, dtype=np.float64).mean())) if is_transformed(blob, mode) else bottom
    return bottom + noise


def extracted(extractor, name):
    code, mat = extractor.extract(name)
    if code != 0:
        raise NetFailure(f'ncnn does not compute "{name}"')
    return mat


def expected_of(extractor, pairs):
    return {pair["blob"]: np.array(extracted(extractor, pair["blob"])).astype(np.float64) for pair in pairs}


def measure_effects(feed, pairs, blobs, generator):
    """The effects on outputs of each blob's rounding, and of the error of its layer's sums. `feed` makes an extractor with the inputs."""
    extractor = feed()
    mats = {}
    for blob in blobs:
        for name in (blob["blob"], blob["bottom"]):
            if name is not None and name not in mats:
                mats[name] = extracted(extractor, name)
    expected = expected_of(extractor, pairs)

    def effect_of(place, name, array):
        extractor = feed()
        for earlier in blobs[:place]:
            if earlier["blob"] != name and not mats[earlier["blob"]].empty():
                extractor.input(earlier["blob"], mats[earlier["blob"]])
        # A layer that has not run would replace the blob when another of its tops is read, as Split does.
        extracted(extractor, name)
        extractor.input(name, mat_of(array))
        return effect(extractor, pairs, expected)

    effects = []
    for place, blob in enumerate(blobs):
        rounded = summed = 0.0
        if not mats[blob["blob"]].empty():
            rounded = effect_of(place, blob["blob"], rounded_to_half(mats[blob["blob"]]))
        if blob["terms"] and not mats[blob["bottom"]].empty():
            summed = effect_of(place, blob["bottom"], with_noise(mats[blob["bottom"]], blob, "default", generator))
        effects.append((rounded, summed))
    return effects


def error_of(feed, pairs, blobs, choice, generator):
    """The error of the outputs in a run with the rounding and noise of all blobs that a choice leaves in float16."""
    expected, extractor = expected_of(feed(), pairs), feed()
    for blob in blobs:
        if blob["name"] in choice["float32"]:
            continue
        read = extracted(extractor, blob["bottom"]) if blob["terms"] else None
        if read is not None and not read.empty():
            extractor.input(blob["bottom"], mat_of(with_noise(read, blob, choice["mode"], generator)))
        mat = extracted(extractor, blob["blob"])
        if read is not None:
            extractor.input(blob["bottom"], read)
        if not mat.empty():
            extractor.input(blob["blob"], mat_of(rounded_to_half(mat)))
    return effect(extractor, pairs, expected)


def part_of(blob, effects, mode):
    """The square of the effect of a blob, and the time of its layer, for all layers in float16, with careful or with precise sums."""
    rounded, summed = effects
    if blob["terms"]:
        summed *= noise_of(blob, mode) / noise_of(blob, "default")
    transformed = is_transformed(blob, mode)
    if blob["is_roughly_transformed"] and not transformed:
        summed /= TRANSFORM
    time = FLOAT32 if mode == "precise" else TRANSFORMED if transformed else 1
    return rounded**2 + summed**2, time * blob["work"]


def choose(blobs, effects, target, modes):
    """The choice of the least time of which the usual error is at most the target: a mode, and the nodes in float32."""
    best, whole = None, sum(blob["work"] for blob in blobs) or 1
    for mode in modes:
        parts, times, works = {}, {}, {}
        for blob, measured in zip(blobs, effects):
            part, time = part_of(blob, measured, mode)
            name = blob["name"]
            parts[name] = parts.get(name, 0) + part
            times[name] = times.get(name, 0) + time
            works[name] = works.get(name, 0) + FLOAT32 * blob["work"]
        names = sorted(parts, key=parts.get)
        left, cut = 0.0, 0
        while cut < len(names) and left + parts[names[cut]] <= target**2:
            left += parts[names[cut]]
            cut += 1
        kept = names[cut:]
        time = sum(times[name] for name in names[:cut]) + sum(works[name] + CONVERSION * whole for name in kept)
        if best is None or time < best["time"]:
            best = {"mode": mode, "float32": kept, "time": time}
    # In the order of the net.
    places = {blob["name"]: place for place, blob in enumerate(blobs)}
    return {**best, "float32": sorted(best["float32"], key=places.get)}


class Precision:
    """The effects of all samples, of each the largest."""

    def __init__(self, request):
        self.blobs, self.target, self.modes = request["measured"], request["half_error"], request["modes"]
        self.effects = [(0.0, 0.0)] * len(self.blobs)
        # Integers, such as the places of the largest elements, count if there is nothing else.
        self.pairs = [pair for pair in request["outputs"] if not pair["int32"]] or request["outputs"]
        self.feeds = []

    def add(self, feed):
        measured = measure_effects(feed, self.pairs, self.blobs, np.random.default_rng(len(self.feeds)))
        self.effects = [tuple(map(max, one, other)) for one, other in zip(self.effects, measured)]
        self.feeds.append(feed)

    def largest_error(self, choice, limit=USELESS):
        """The largest error of the runs of a choice, or one above the limit."""
        # Rounding is the same in each run, and the noise of sums is not.
        runs = -(-RUNS // len(self.feeds)) if any(blob["terms"] for blob in self.blobs) else 1
        largest = 0.0
        for run, feed in enumerate(self.feeds * runs):
            largest = max(largest, error_of(feed, self.pairs, self.blobs, choice, np.random.default_rng(run)))
            if largest > limit:
                break
        return largest

    def choice(self):
        default = self.largest_error({"mode": self.modes[0], "float32": []})
        target = self.target
        for left in reversed(range(TRIES)):
            choice = choose(self.blobs, self.effects, target, self.modes)
            error = self.largest_error(choice, self.target if left else USELESS)
            if error <= self.target:
                break
            target *= max(self.target / error, 0.25)
        return {**choice, "error": error, "default": default, "samples": len(self.feeds)}
