
def select(boxes, classes, scores, threshold=0.25, overlap=0.45):
    """Indices of boxes, the best first: those above the threshold without those that lie over a better one of their class."""
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    order = np.flatnonzero(scores >= threshold)
    order = order[scores[order].argsort(kind="stable")[::-1]]
    kept = []
    while len(order):
        first, order = order[0], order[1:]
        kept.append(int(first))
        shared = np.minimum(boxes[order, 2:], boxes[first, 2:]) - np.maximum(boxes[order, :2], boxes[first, :2])
        shared = np.maximum(shared, 0).prod(axis=1)
        ratio = shared / np.maximum(area[order] + area[first] - shared, 1e-9)
        order = order[(ratio <= overlap) | (classes[order] != classes[first])]
    return kept


def in_picture(box, place):
    """A box of the net as one of the picture that was read."""
    scale, left, top = place
    return [(float(box[i]) - (left, top)[i % 2]) / scale for i in range(4)]


def name_of(index):
    return NAMES[index] if index < len(NAMES) else str(index)
