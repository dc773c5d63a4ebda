#!/usr/bin/env python3
"""Writes the states of cmaes 0.13.1 after given generations, for tests/tune/searchers/cma_search_test.cc.

usage: cma_oracle.py [--seed S] >trace
"""

import argparse
import random
import sys

import numpy as np
from cmaes import CMA

from trace_format import bits


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=7)
    rng = random.Random(parser.parse_args().seed)
    out = sys.stdout
    for dimensions, population in [(1, 4), (2, None), (3, 12), (5, None)]:
        strategy = CMA(mean=np.full(dimensions, 0.5), sigma=1 / 6, population_size=population)
        print("S", dimensions, population or 0, file=out)
        for _ in range(6):
            solutions = []
            for _ in range(strategy.population_size):
                point = np.array([rng.random() for _ in range(dimensions)])
                loss = round(float(((point - 0.2) ** 2).sum()), 2)  # with ties
                solutions.append((point, loss))
                print("X", *map(bits, point), bits(loss), file=out)
            strategy.tell(solutions)
            state = [*strategy._mean, strategy._sigma, *strategy._C.ravel(), *strategy._p_sigma, *strategy._pc]
            print("Y", *map(bits, map(float, state)), file=out)


if __name__ == "__main__":
    main()
