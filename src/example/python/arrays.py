
def read_array(name, path):
    """An array of a file of numpy, or the samples of a .wav file of 16 bits."""
    if path.endswith(".npy"):
        return np.load(path)
    with wave.open(path) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), np.int16)
        samples = samples.reshape(-1, file.getnchannels()).mean(axis=1).astype(np.float32) / 32768
    shape = SHAPES[name]
    return samples[: len(samples) // np.prod(shape) * np.prod(shape)].reshape(-1, *shape)


def calls(name, array):
    """The arrays of each call: an array with one more axis than the input has one for each."""
    array = array if array.ndim > len(SHAPES[name]) else array[None]
    return [as_blob(name, part) for part in array]


def as_blob(name, array):
    """An array in the shape of the model as the net reads it: in the shape of the blob."""
    shape = [int(np.prod([array.shape[axis] for axis in axes])) for axes in AXES[name]]
    return array.reshape(shape).astype(np.int32 if name in INTEGERS else np.float32)
