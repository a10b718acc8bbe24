
def read_text(rows):
    """The text of rows of scores: the best of each row, without repetitions and blanks, which have the index BLANK."""
    best = [int(index) for index in rows.reshape(-1, rows.shape[-1]).argmax(axis=1)]
    kept = [index for index, before in zip(best, [None, *best]) if index not in (before, BLANK)]
    return "".join(ALPHABET[index] if index < len(ALPHABET) else f"<{index}>" for index in kept)
