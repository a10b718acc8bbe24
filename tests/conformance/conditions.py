"""Evaluates the conditions on free sizes that the converter tells."""

import re

FUNCTIONS = {"floor_div": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": min, "max": max}


def holds(condition, sizes):
    """Whether a condition holds for sizes by their names."""
    names = FUNCTIONS | sizes
    condition, either = condition.removesuffix(", or one of them is 1"), condition.endswith(" is 1")
    if match := re.fullmatch("(.*) is a multiple of (.*)", condition):
        return eval(match[1], names) % eval(match[2], names) == 0
    if match := re.fullmatch("(.*) is 1 or (.*)", condition):
        return eval(match[1], names) in (1, eval(match[2], names))
    a, operator, b = re.fullmatch("(.*) (>=|<=|=) (.*)", condition).groups()
    a, b = eval(a, names), eval(b, names)
    return {">=": a >= b, "<=": a <= b, "=": a == b or either and 1 in (a, b)}[operator]
