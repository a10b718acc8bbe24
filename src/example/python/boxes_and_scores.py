
def candidates(results):
    """Boxes as left, top, right, bottom, with classes, scores and the further numbers of each: of two outputs.
    Boxes between 0 and 1 are parts of the picture."""
    boxes, scores = results[BOXES].reshape(-1, 4), results[SCORES].reshape(-1, CLASSES)
    if np.abs(boxes).max() <= 2:
        boxes = boxes * np.array([WIDTH, HEIGHT, WIDTH, HEIGHT])
    return boxes, scores.argmax(axis=1), scores.max(axis=1), np.zeros((len(boxes), 0))
