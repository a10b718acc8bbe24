
def best(scores, count=5):
    """The most probable classes, each with its probability."""
    order = scores.argsort()[::-1][:count]
    return [(int(index), float(scores[index])) for index in order]


def name_of(index):
    return NAMES[index] if index < len(NAMES) else str(index)
