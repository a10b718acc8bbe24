
def candidates(results):
    """Boxes as left, top, right, bottom, with classes, scores and the further numbers of each: of columns of
    x, y, w, h, a score for each class, and further numbers."""
    rows = results[BOXES].reshape(-1, results[BOXES].shape[-1]).T
    x, y, w, h = rows[:, :4].T
    scores = rows[:, 4 : 4 + CLASSES]
    boxes = np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], axis=1)
    return boxes, scores.argmax(axis=1), scores.max(axis=1), rows[:, 4 + CLASSES :]
