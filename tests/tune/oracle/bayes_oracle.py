#!/usr/bin/env python3
"""Writes the first suggestions of Ray's BayesOptSearch and predictions of scikit-learn's Gaussian process with the kernel
of bayesian-optimization 1.4.3, for tests/tune/searchers/bayes_search_test.cc.

usage: bayes_oracle.py [--seed S] >trace
"""

import argparse
import random
import sys
import warnings

warnings.filterwarnings("ignore")

import numpy as np  # noqa: E402
from ray.tune.search.bayesopt import BayesOptSearch  # noqa: E402
from sklearn.gaussian_process import GaussianProcessRegressor  # noqa: E402
from sklearn.gaussian_process.kernels import Matern  # noqa: E402

from trace_format import bits, config_text  # noqa: E402


def suggestions(out, rng):
    for seed in [42, 7, 123456]:
        space = {name: (rng.randint(-10, 0), rng.randint(1, 30)) for name in rng.sample("qwertz", rng.randint(1, 5))}
        search = BayesOptSearch({name: tuple(map(float, bounds)) for name, bounds in space.items()}, metric="m", mode="min",
                                random_state=seed)
        print("S", seed, file=out)
        for name, (low, high) in space.items():
            print("M", name, bits(float(low)), bits(float(high)), file=out)
        for trial in range(10):
            print("W", config_text({k: float(v) for k, v in search.suggest(str(trial)).items()}), file=out)


def predictions(out, rng):
    for count, dimensions, scale in [(3, 1, 0.5), (10, 2, 1.0), (40, 4, 3.0), (25, 3, 0.01)]:
        points = np.array([[rng.uniform(-3, 3) for _ in range(dimensions)] for _ in range(count)])
        targets = np.array([float(np.sin(point).sum() + rng.gauss(0, 0.1)) for point in points])
        process = GaussianProcessRegressor(kernel=Matern(length_scale=scale, nu=2.5), alpha=1e-6, normalize_y=True,
                                           optimizer=None).fit(points, targets)
        print("G", bits(scale), file=out)
        for point, target in zip(points, targets):
            print("X", *map(bits, point), bits(target), file=out)
        tries = np.array([[rng.uniform(-4, 4) for _ in range(dimensions)] for _ in range(50)])
        means, deviations = process.predict(tries, return_std=True)
        for point, mean, deviation in zip(tries, means, deviations):
            print("Y", *map(bits, point), bits(mean), bits(deviation), file=out)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    suggestions(sys.stdout, rng)
    predictions(sys.stdout, rng)


if __name__ == "__main__":
    main()
