
def read_array(name, text):
    """An array: of a file of numpy, of the samples of a .wav file of 16 bits, or of numbers with commas."""
    shape = SHAPES[name]
    if text.endswith(".npy"):
        return np.load(text)
    if not text.endswith(".wav"):
        return np.array(text.split(","), np.float32).reshape(shape)
    with wave.open(text) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
        samples = samples.reshape(-1, file.getnchannels()).mean(axis=1).astype(np.float32) / 32768
    # A free length takes all samples; a fixed number of them is for one call.
    size = abs(np.prod(shape))
    return samples[: len(samples) // size * size].reshape(shape if -1 in shape else (-1, *shape))


def calls(name, array):
    """The arrays of each call: an array with one more axis than the input has one for each."""
    array = array if array.ndim > len(SHAPES[name]) else array[None]
    return [as_blob(name, part) for part in array]


def as_blob(name, array):
    """An array in the shape of the model as the net reads it: in the shape of the blob."""
    shape = [int(np.prod([array.shape[axis] for axis in axes])) for axes in AXES[name]]
    return array.reshape(shape).astype(np.int32 if name in INTEGERS else np.float32)
