"""Random graphs: their values, and the generators of their operators."""
