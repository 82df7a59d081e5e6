"""Learns an AQM by random search, and shows it beside RED, PIE and MERED.

The policy has three numbers: p = a (delay - target) + b (change of the delay), integrated over the intervals. The search
keeps what is better over two seeds; the comparison is on others.
"""

from __future__ import annotations

import os

import numpy
import tidegate
from tidegate.gym import AqmEnv, bottleneck

TRIES = int(os.environ.get("TIDEGATE_EXAMPLE_TRIES", "60"))
TARGET_MS = 5.0


def episode(policy: numpy.ndarray, seed: int) -> float:
    """The mean reward of an episode: Mbit/s, less 0.1 for each ms above the target."""
    environment = AqmEnv(target_ms=TARGET_MS, duration="10s")
    (_, delay, _, _), _ = environment.reset(seed=seed)
    probability, last, total, steps, over = 0.0, delay, 0.0, 0, False
    while not over:
        probability += policy[0] * (delay - TARGET_MS) + policy[1] * (delay - last)
        probability = float(numpy.clip(probability, 0.0, policy[2]))
        last = delay
        (_, delay, _, _), reward, _, over, _ = environment.step(numpy.array([probability], numpy.float32))
        total, steps = total + reward, steps + 1
    return total / steps


def mean(policy: numpy.ndarray, seeds: range) -> float:
    return float(numpy.mean([episode(policy, seed) for seed in seeds]))


def learn(tries: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The first policy, and the best that was found near the best so far."""
    draws = numpy.random.default_rng(1)
    first = best = numpy.array([1e-6, 1e-6, 0.5])
    reward = mean(best, range(1, 3))
    for _ in range(tries):
        tried = best * numpy.exp(draws.normal(0.0, 1.0, 3) * numpy.array([1.5, 1.5, 0.5]))
        if (found := mean(tried, range(1, 3))) > reward:
            best, reward = tried, found
    return first, best


def of_discipline(queue: dict[str, object], seeds: range) -> tuple[float, float, float]:
    """Reward, Mbit/s and ms of a discipline in the same network."""
    rows = []
    for seed in seeds:
        results = tidegate.simulate(bottleneck(duration="10s", queue=queue), seed=seed)
        rate = results.value("link r->b", "throughput") / 1e6
        delay = results.value("link r->b", "queueing mean") / 1e6
        rows.append((rate - 0.1 * max(0.0, delay - TARGET_MS), rate, delay))
    reward, rate, delay = numpy.mean(rows, axis=0)
    return float(reward), float(rate), float(delay)


def main() -> dict[str, tuple[float, ...]]:
    first, best = learn(TRIES)
    seeds = range(11, 14)
    found: dict[str, tuple[float, ...]] = {"first try": (mean(first, seeds),), "learned": (mean(best, seeds),)}
    red = {"kind": "red", "min-th": "5 packets", "max-th": "15 packets", "max-p": 0.1, "limit": "450kB"}
    for name, queue in (("red", red), ("pie", {"kind": "pie"}), ("mered", {"kind": "mered", "link": "10mbit"})):
        found[name] = of_discipline(queue, seeds)
    return found


if __name__ == "__main__":
    for name, numbers in main().items():
        print(f"{name:10}", "  ".join(f"{number:7.2f}" for number in numbers))
