
def candidates(results):
    """Boxes as left, top, right, bottom, with classes, scores and the further numbers of each: of rows of
    left, top, right, bottom, score, class, and further numbers."""
    rows = results[BOXES].reshape(-1, results[BOXES].shape[-1])
    return rows[:, :4], rows[:, 5].astype(int), rows[:, 4], rows[:, 6:]
