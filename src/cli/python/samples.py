"""Samples of the inputs of a model from files of arrays, images, and arrays, for the scripts that this text precedes."""

import os

ARRAYS = (".npz", ".npy")
IMAGES = (".bmp", ".jpeg", ".jpg", ".png", ".webp")
# Every fourth sample is held out, where samples also judge what is made by the others.
HELD_BACK = 4
# The effects of parts of a model on the outputs are measured on the first samples.
MAX_OF_EFFECTS = 2


def arrays_of(path):
    """The arrays of a file by their names; one without a name, of a .npy file, has the name None."""
    try:
        loaded = np.load(path, allow_pickle=False)
        return dict(loaded) if hasattr(loaded, "files") else {None: loaded}
    except Exception as error:
        raise Failure(f"{path} cannot be read: {error}") from None


def channel_axis(node):
    """The axis of the channels of an image, counted from the last."""
    for axis in (-3, -1):
        if len(node.shape) in (3, 4) and node.shape[axis] in (1, 3):
            return axis
    raise Failure(f'the input "{node.name}" of shape {node.shape} is not that of an image of 1 or 3 channels')


def read_image(path, node, request):
    """An image in the size of an input, as an array in its layout."""
    try:
        from PIL import Image
    except ImportError:
        raise Failure(f"{sys.executable} has no PIL, which reads images", "install the package pillow") from None
    axis = channel_axis(node)
    height, width = node.shape[-2:] if axis == -3 else node.shape[-3:-1]
    try:
        with Image.open(path) as file:
            image = file.convert("RGB" if node.shape[axis] == 3 else "L")
    except Exception as error:
        raise Failure(f"{path} cannot be read: {error}") from None
    size = [known if isinstance(known, int) else own for known, own in zip((width, height), image.size)]
    pixels = np.asarray(image.resize(size, Image.Resampling.BILINEAR), np.float32)
    pixels = pixels.reshape(size[1], size[0], -1)
    if request.get("bgr"):
        pixels = pixels[:, :, ::-1]
    is_whole = "int" in node.type
    mean, norm = request.get("mean") or [0.0], request.get("norm") or [1.0 if is_whole else 1 / 255]
    for option, values in (("mean", mean), ("norm", norm)):
        if len(values) not in (1, pixels.shape[2]):
            raise Failure(f"{option} has {len(values)} numbers for {pixels.shape[2]} channels")
    pixels = (pixels - np.float32(mean)) * np.float32(norm)
    pixels = pixels.transpose(2, 0, 1) if axis == -3 else pixels
    return pixels[None] if len(node.shape) == 4 else pixels


def tables(request, nodes):
    """The arrays of each file or item of the data by the names of inputs, after the name of the file or item."""
    data, changes_images = request["data"], any(request.get(change) for change in ("mean", "norm", "bgr"))
    if changes_images and not isinstance(data, str):
        raise Failure("mean, norm and bgr are for images, and the data are arrays")
    if isinstance(data, dict):
        yield "the data", data
        return
    if not isinstance(data, str):
        for index, arrays in enumerate(data):
            yield f"item {index} of the data", arrays
        return
    files = [data]
    if os.path.isdir(data):
        files = sorted(os.path.join(data, name) for name in os.listdir(data) if name.lower().endswith((*ARRAYS, *IMAGES)))
        if not files:
            raise Failure(f"{data} has no .npz or .npy files and no images")
    if changes_images and not any(file.lower().endswith(IMAGES) for file in files):
        raise Failure(f"mean, norm and bgr are for images, and {data} has none")
    for file in files:
        if not file.lower().endswith(IMAGES):
            yield file, arrays_of(file)
            continue
        if len(nodes) != 1:
            raise Failure(f"{file} is an image, and the model has {len(nodes)} inputs")
        yield file, {None: read_image(file, nodes[0], request)}


def fits(shape, node):
    sizes = node.shape
    return len(shape) == len(sizes) and all(not isinstance(size, int) or size == given for size, given in zip(sizes, shape))


def pieces(array, node):
    """The values of an input in an array: the array itself, its elements, or its parts along the batch axis, which may be missing."""
    dtype = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}.get(node.type)
    dtype = dtype or node.type[len("tensor("):-1]
    try:
        array = np.asarray(array).astype({"bool": "bool_"}.get(dtype, dtype))
    except (TypeError, ValueError) as error:
        raise Failure(f'the values of the input "{node.name}" are not of type {dtype}: {error}') from None
    if fits(array.shape, node):
        # A free first axis is a batch, which the net does not have.
        is_batch = array.ndim > 1 and not isinstance(node.shape[0], int)
        return [array[index:index + 1] for index in range(len(array))] if is_batch else [array]
    if array.ndim and fits(array.shape[1:], node):
        return list(array)
    if array.ndim and fits((1, *array.shape[1:]), node):
        return [array[index:index + 1] for index in range(len(array))]
    if fits((1, *array.shape), node):
        return [array[None]]
    raise Failure(f'an array of shape {list(array.shape)} for the input "{node.name}" of shape {node.shape}')


def read_samples(session, request):
    nodes = session.get_inputs()
    samples = []
    for where, arrays in tables(request, nodes):
        if None in arrays:
            if len(nodes) != 1:
                raise Failure(f"{where} has no names, and the model has {len(nodes)} inputs")
            arrays = {nodes[0].name: arrays[None]}
        for node in nodes:
            if node.name not in arrays:
                raise Failure(f'{where} has no array "{node.name}"; it has {", ".join(arrays)}')
        columns = [pieces(arrays[node.name], node) for node in nodes]
        count = max(map(len, columns))
        if any(len(column) not in (1, count) for column in columns):
            raise Failure(f"{where} has {' and '.join(str(len(column)) for column in columns)} values of the inputs")
        for index in range(count):
            samples.append({node.name: column[index if len(column) > 1 else 0] for node, column in zip(nodes, columns)})
    if not samples:
        raise Failure("the data has no samples")
    check_own_sizes(session, samples)
    return samples


def check_own_sizes(session, samples):
    """Fails if the model does not run on an image in its own size, as inputs with free sizes get it."""
    for sample in samples:
        for node in session.get_inputs():
            if len(session.get_inputs()) != 1 or len(node.shape) != 4 or all(isinstance(size, int) for size in node.shape[1:]):
                return
            shape = list(sample[node.name].shape)
            try:
                session.run(None, sample)
            except Exception:
                fixed = [1] + [size if isinstance(size, int) else 640 for size in node.shape[1:]]
                advice = f"fix the sizes, for example --input-shape {node.name}:{','.join(map(str, fixed))}; images are resized to them"
                raise Failure(f"onnxruntime does not run the model on a sample of shape {shape}", advice) from None


def apart(samples):
    """The samples to work with, and those that are held out; a single one is both."""
    held_back = samples[HELD_BACK - 1::HELD_BACK] or samples[-1:]
    return [sample for sample in samples if not any(sample is other for other in held_back)] or samples, held_back
