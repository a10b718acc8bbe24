
def candidates(results):
    """Boxes as left, top, right, bottom, with classes, scores and the further numbers of each: of rows of
    x, y, w, h, whether there is an object, a score for each class, and further numbers."""
    rows = results[BOXES].reshape(-1, results[BOXES].shape[-1])
    x, y, w, h, objects = rows[:, :5].T
    scores = rows[:, 5 : 5 + CLASSES] * objects[:, None]
    boxes = np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], axis=1)
    return boxes, scores.argmax(axis=1), scores.max(axis=1), rows[:, 5 + CLASSES :]
