"""A net on a device, for the script that this text precedes.

A command of the user starts a program there, whose source `onnx2ncnn runner` prints (`runner.cpp`). Both write lines of words, which bytes
may follow.
"""

import math
import re
import subprocess
import tempfile
import threading

# What the program writes first: its name, the version of what is sent, and the release of ncnn.
HELLO = ["onnx2ncnn", "runner", "1"]
COMPILE = "compile the source that `onnx2ncnn runner` prints with ncnn for the device, and copy it there"
# The codes with which a shell ends if it does not find the program, cannot start it, or if it was killed or crashed.
NOT_FOUND, NOT_STARTED, KILLED, CRASHED = 127, 126, 128 + 9, 128 + 11
NO_MEMORY = -100
# The seconds after which a program that has not written anything is another one.
SILENCE = 20
TEXT_NOT_STARTED = re.compile("exec format error|not executable|cannot execute|invalid elf|wrong elf", re.IGNORECASE)


class DeviceFailure(Failure):
    """The device is at fault, or how it is reached."""


class Kept(str):
    """The name of a cache that the device keeps."""


class Device:
    """A net that a device runs, with the methods of ncnn.Net that this script calls."""

    def __init__(self, request):
        self.request, self.param = request, b""
        self.wanted = [Kept(pair["blob"]) if pair.get("cache") else pair["blob"] for pair in request["layers"] + request["outputs"]]
        # The runtime reports errors here.
        self.errors = tempfile.TemporaryFile()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors}
        # Of the shell, so that it may be any command that the user would type.
        self.process = subprocess.Popen(request["device"], shell=True, **pipes)
        # A shell without the program would wait for more, until its input ends.
        timer = threading.Timer(SILENCE, self.process.stdin.close)
        timer.daemon = True
        timer.start()
        # A shell of the device may greet first.
        line = "none"
        while line and line.split()[: len(HELLO) - 1] != HELLO[:-1]:
            line = self.process.stdout.readline().decode(errors="replace")
        timer.cancel()
        if not line and self.process.stdin.closed:
            self.close()
            raise DeviceFailure(f"the program on the device did not start: the command wrote nothing for {SILENCE} seconds", COMPILE)
        if not line:
            raise self.ended("the program on the device did not start")
        if line.split()[: len(HELLO)] != HELLO:
            raise DeviceFailure(f"the program on the device is of another version: {line.strip()}", COMPILE)

    def close(self):
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except OSError:
                pass
        return self.process.wait()

    def said(self):
        """The last line of an error."""
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def ended(self, what):
        """The failure of a program that ended."""
        code = self.close()
        code, said = 128 - code if code < 0 else code, self.said()
        told = f"{what}: {said}" if said else f"{what}: it ended with {code}"
        if code == NOT_STARTED or TEXT_NOT_STARTED.search(said):
            return DeviceFailure(told, f"a file for another processor, or without the permission to run, ends so: {COMPILE}")
        if code == NOT_FOUND:
            return DeviceFailure(told, f"the name is that of no program there: {COMPILE}")
        if code in (KILLED, CRASHED):
            return DeviceFailure(f"{what}: it {'was killed' if code == KILLED else 'crashed'}", "the device may have too little memory")
        return DeviceFailure(told)

    def send(self, line, *parts):
        try:
            self.process.stdin.write(f"{line}\n".encode())
            for part in parts:
                self.process.stdin.write(part)
        except OSError:
            raise self.ended("the program on the device ended") from None

    def answer(self):
        try:
            self.process.stdin.flush()
            words = self.process.stdout.readline().decode().split()
        except OSError:
            words = []
        if not words:
            raise self.ended("the program on the device ended")
        return words

    def load_param_mem(self, text):
        self.param = text.encode()
        return 0

    def load_param(self, path):
        with open(path, "rb") as file:
            self.param = file.read()
        return 0

    def load_model(self, path):
        with open(path, "rb") as file:
            return self.load_model_mem(file.read(), path)

    def load_model_mem(self, weights, path=""):
        options = [int(self.request.get(option, False)) for option in ("fp16", "bf16", "vulkan")]
        self.send(" ".join(map(str, ["net", len(self.param), len(weights), self.request.get("threads") or 0, *options])), self.param, weights)
        done, told = self.answer()
        if done == "ok":
            self.threads = int(told)
            return 0
        if told == "gpu":
            raise DeviceFailure("ncnn finds no GPU with Vulkan on the device, or was built without Vulkan")
        self.close()
        if told == "short":
            raise NetFailure(f"ncnn does not load {path} on the device: the file has fewer bytes than its net reads")
        # An allocation that fails is an error of the layer that needs it.
        more = "; the device may have too little memory" if told == "bin" else ""
        raise NetFailure(f"ncnn does not load {self.request['param']} on the device: {self.said()}{more}")

    def create_extractor(self):
        return DeviceExtractor(self)

    def run(self, inputs, wanted, times, is_light):
        """The seconds of a run, and the codes, seconds and arrays of blobs by their names."""
        for blob, array in inputs.items():
            if isinstance(array, Kept):
                self.send(f"cache {blob} {array}")
                continue
            self.send(" ".join(map(str, ["input", blob, array.ndim, *array.shape])), np.ascontiguousarray(array).tobytes())
        for blob in wanted:
            self.send(f"{'keep' if isinstance(blob, Kept) else 'output'} {blob}")
        self.send(f"run {times} {int(is_light)}")
        seconds, results = float(self.answer()[1]), {}
        for blob in wanted:
            results[blob] = self.read_result(blob)
        return seconds, results

    def read_result(self, blob):
        code, seconds, element, *shape = self.answer()
        if int(code) == NO_MEMORY:
            self.close()
            raise DeviceFailure(f'the device has too little memory to compute "{blob}"')
        shape = [int(size) for size in shape]
        count = math.prod(shape) * int(element)
        part = self.process.stdout.read(count) if count else b""
        if len(part) < count:
            raise self.ended("the program on the device ended")
        array = np.frombuffer(part, np.int8 if int(element) == 1 else np.float32)
        return int(code), float(seconds), array.reshape(shape)


class DeviceExtractor:
    """One run of the net, with the methods of ncnn.Extractor that this script calls."""

    def __init__(self, device):
        self.device, self.inputs, self.results = device, {}, None

    def set_light_mode(self, is_light):
        pass

    def input(self, blob, array):
        self.inputs[blob] = array
        return 0

    def extract(self, blob, kind=0):
        if self.results is None:
            is_light = not self.device.request["layers"]
            wanted = self.device.wanted if blob in self.device.wanted else [blob]
            self.results = self.device.run(self.inputs, wanted, 1 if is_light else TIMED_RUNS, is_light)[1]
        code, self.seconds, array = self.results[blob]
        return code, Kept(blob) if kind else array

    def time(self):
        """The seconds of a run for the outputs alone."""
        return self.device.run(self.inputs, [pair["blob"] for pair in self.device.request["outputs"]], TIMED_RUNS, True)[0]
