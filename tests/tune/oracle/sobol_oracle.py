#!/usr/bin/env python3
"""Writes points of SciPy's unscrambled Sobol sequence, times 2^30, for tests/tune/sobol_search_test.cc.

usage: sobol_oracle.py >trace   Each line has the number of dimensions, the index, and the coordinates.
"""

from scipy.stats import qmc

for dimensions, indices in [(1, range(40)), (5, range(40)), (512, [1, 7, 33, 62, 63])]:
    points = qmc.Sobol(dimensions, scramble=False).random(64)
    for index in indices:
        print(dimensions, index, *(int(value * 2**30) for value in points[index]))
