#!/usr/bin/env python3
"""Writes points of SciPy's Sobol sequence, times 2^30, for tests/tune/searchers/sobol_search_test.cc.

usage: sobol_oracle.py [--scrambled] >trace
Each line has the number of dimensions, the index, and the coordinates. With --scrambled, a line "matrices" with the
number of dimensions, the rows of the lower triangular matrices, and the shifts precedes the points "INDEX COORDINATES".
"""

import sys

import numpy as np
from scipy.stats import _qmc as implementation
from scipy.stats import qmc

BITS = 30


def write_plain():
    for dimensions, indices in [(1, range(40)), (5, range(40)), (512, [1, 7, 33, 62, 63])]:
        points = qmc.Sobol(dimensions, scramble=False).random(64)
        for index in indices:
            print(dimensions, index, *(int(value * 2**BITS) for value in points[index]))


class Draws:
    """The generator of SciPy, which also keeps what it drew."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.drawn = []

    def integers(self, *arguments, **options):
        self.drawn.append(self.random.integers(*arguments, **options))
        return self.drawn[-1]


def write_scrambled():
    for dimensions in [1, 3, 12]:
        draws = Draws(dimensions)
        own = implementation.rng_integers
        implementation.rng_integers = lambda rng, low, size, dtype: draws.integers(low, size=size, dtype=dtype)
        try:
            sequence = qmc.Sobol(dimensions, scramble=True, rng=1)
        finally:
            implementation.rng_integers = own
        shift_bits, matrices = draws.drawn
        powers = 2 ** np.arange(BITS, dtype=np.uint64)
        shifts = [int(np.dot(row.astype(np.uint64), powers)) for row in shift_bits]
        lower = np.tril(matrices).astype(np.uint64)
        for own_rows in lower:
            np.fill_diagonal(own_rows, 1)
        rows = [int(np.dot(row, powers[::-1])) for own_rows in lower for row in own_rows]
        print("matrices", dimensions, *rows, *shifts)
        points = sequence.random(64)
        for index in [0, 1, 2, 3, 17, 40, 63]:
            print(index, *(int(value * 2**BITS) for value in points[index]))


if "--scrambled" in sys.argv:
    write_scrambled()
else:
    write_plain()
