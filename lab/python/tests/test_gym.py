"""The environments."""

from __future__ import annotations

import pytest

gymnasium = pytest.importorskip("gymnasium")
numpy = pytest.importorskip("numpy")

from gymnasium.utils.env_checker import check_env  # noqa: E402
from tidegate import gym  # noqa: E402

KINDS = [gym.AqmEnv, gym.CongestionEnv, gym.ShaperEnv]


def trace(environment, seed, actions):
    seen = [environment.reset(seed=seed)[0]]
    rewards = []
    for action in actions:
        observation, reward, _, truncated, _ = environment.step(numpy.array([action], numpy.float32))
        seen.append(observation)
        rewards.append(reward)
    return numpy.stack(seen), rewards, truncated


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_an_environment_and_deterministic(kind):
    check_env(kind(duration="2s"), skip_render_check=True)
    actions = [0.5, 0.1, 0.9] * 7
    first, second = trace(kind(duration="2s"), 7, actions), trace(kind(duration="2s"), 7, actions)
    assert (first[0] == second[0]).all() and first[1:] == second[1:]
    assert numpy.ptp(first[0], axis=0).max() > 0


def test_an_episode_is_the_duration():
    environment = gym.AqmEnv(duration="1s", interval_ns=100_000_000)
    environment.reset(seed=1)
    ends = [environment.step(environment.action_space.sample())[3] for _ in range(10)]
    assert ends == [False] * 9 + [True]


@pytest.mark.parametrize("kind", KINDS)
def test_actions_matter(kind):
    low, high = ((0.0, 0.5) if kind is gym.AqmEnv else (0.1, 1.4) if kind is gym.CongestionEnv else (1.0, 20.0))
    rates = [trace(kind(duration="5s"), 1, [action] * 40)[1] for action in (low, high)]
    assert abs(sum(rates[0]) - sum(rates[1])) > 1.0


def test_vectors_have_the_numbers_of_single_environments():
    make = lambda: gym.AqmEnv(duration="1s", interval_ns=100_000_000)  # noqa: E731
    vector = gym.VectorEnv([make() for _ in range(3)])
    observations = [vector.reset(seed=5)[0]]
    for _ in range(10):
        observation, rewards, _, truncated, _ = vector.step(numpy.full((3, 1), 0.02, numpy.float32))
        observations.append(observation)
        assert rewards.shape == (3,)
    assert truncated.all()
    for number in range(3):
        single, _, _ = trace(make(), 5 + number, [0.02] * 10)
        assert (numpy.stack(observations)[:, number] == single).all()
    observation, rewards, _, truncated, _ = vector.step(numpy.zeros((3, 1), numpy.float32))
    assert not truncated.any() and (rewards == 0).all()
    vector.close()
