"""Evaluates the sizes and the conditions on free sizes that the converter prints."""

import re

import numpy as np

FUNCTIONS = {"floor_div": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max}

# A function, a number or a name; a name with other characters is in brackets.
WORD = re.compile(r"[\w.:#$@\[\]]+")


def evaluate(text, sizes):
    """The value of a printed size, for sizes by their names; KeyError if it has another name."""
    if text in sizes:
        return sizes[text]
    for name in sorted(sizes, key=len, reverse=True):
        if not WORD.fullmatch(name):
            text = text.replace(f"({name})", f"({sizes[name]})")

    def word(match):
        return match[0] if match[0].isdigit() or match[0] in FUNCTIONS else str(sizes[match[0]])

    return eval(WORD.sub(word, text), FUNCTIONS)


def parts(text):
    """The parts of a list of sizes, between commas outside brackets."""
    depth, found = 0, [""]
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return [part.strip() for part in found if part.strip()]


def bind(sizes, texts, shape):
    """Adds the sizes of the axes of an input whose printed sizes are names. -> whether the others agree."""
    pairs = list(zip(texts, map(int, shape)))
    for text, size in pairs:
        if WORD.fullmatch(text) and not text.isdigit():
            sizes.setdefault(text, size)
    for text, size in pairs:
        try:
            if evaluate(text, sizes) != size:
                return False
        except (KeyError, SyntaxError):
            sizes[text] = size
    return len(texts) == len(shape)


def holds(condition, sizes):
    """Whether a condition holds for sizes by their names."""
    condition, either = condition.removesuffix(", or one of them is 1"), condition.endswith(" is 1")
    if match := re.fullmatch("(.*) is a multiple of (.*)", condition):
        return evaluate(match[1], sizes) % evaluate(match[2], sizes) == 0
    if match := re.fullmatch("(.*) is 1 or (.*)", condition):
        return evaluate(match[1], sizes) in (1, evaluate(match[2], sizes))
    a, operator, b = re.fullmatch("(.*) (>=|<=|=) (.*)", condition).groups()
    a, b = evaluate(a, sizes), evaluate(b, sizes)
    return {">=": a >= b, "<=": a <= b, "=": a == b or either and 1 in (a, b)}[operator]


def satisfies(conditions, case, ports):
    """Whether the sizes of a case satisfy printed conditions, which semicolons separate."""
    sizes = {}
    with np.load(case / "inputs.npz") as inputs:
        for name in inputs.files:
            if port := ports.get(("input", name)):
                bind(sizes, port["shape"], inputs[name].shape)
    return all(holds(condition, sizes) for condition in conditions.split("; "))
