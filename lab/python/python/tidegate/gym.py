"""Environments of gymnasium (extra ``gym``): a controller of a queue, of a sender, of a shaper.

Each environment runs a simulation of Tidegate for ``interval_ns`` in a step. It is deterministic: ``reset(seed)`` and the
same actions give the same observations on every machine. An episode is the duration of its scenario, and ends by
``truncated``.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy

from ._tidegate import Decider
from .scenario import Scenario, load
from .simulation import Simulation, run_all

__all__ = ["AqmEnv", "CongestionEnv", "ShaperEnv", "VectorEnv"]

_MS = 1_000_000


class _Env(gymnasium.Env):
    """A simulation of which each step runs an interval."""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, scenario: Any, link: str, interval_ns: int) -> None:
        self._checked = load(scenario)
        self._link, self.interval_ns = link, interval_ns
        self._simulation: Simulation | None = None
        self._end_ns = 0
        #: What was seen last, for differences.
        self._last: dict[str, Any] = {}

    def _look(self) -> dict[str, Any]:
        assert self._simulation is not None, "reset comes first"
        seen = self._simulation.look()
        link = next((link for link in seen["links"] if link["name"] == self._link), None)
        if link is None:
            names = ", ".join(link["name"] for link in seen["links"])
            raise KeyError(f"no link is called {self._link!r}; there are {names}")
        flows = seen["flows"]
        link["goodput_bytes"] = sum(flow["goodput_bytes"] for flow in flows)
        link["cwnd_bytes"] = flows[0]["cwnd_bytes"] or 0
        link["srtt_ns"] = flows[0]["srtt_ns"] or 0
        return link

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins another episode. Without a seed it is drawn, as gymnasium has it."""
        super().reset(seed=seed)
        chosen = int(self.np_random.integers(1, 2**31)) if seed is None else seed
        self._start()
        self._simulation = Simulation(self._checked, seed=chosen)
        self._end_ns = 0
        self._last = self._look()
        return self._observe(self._last, self._last), {"seed": chosen}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Acts, runs an interval, and looks."""
        self._act(action)
        self._end_ns += self.interval_ns
        assert self._simulation is not None, "reset comes first"
        self._simulation.run_until(self._end_ns)
        return self._after()

    def _after(self) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        before, self._last = self._last, self._look()
        observation, reward = self._observe(before, self._last), self._reward(before, self._last)
        return observation, reward, False, self._end_ns >= self._checked.duration_ns, {"link": self._last}

    def _rate(self, before: dict[str, Any], now: dict[str, Any], key: str) -> float:
        """What the total ``key`` of bytes grew by, in Mbit/s."""
        return (now[key] - before[key]) * 8e3 / self.interval_ns

    @staticmethod
    def _delay_ms(before: dict[str, Any], now: dict[str, Any]) -> float:
        """The mean queueing delay of what was transmitted in the interval, in ms."""
        packets = now["delay_packets"] - before["delay_packets"]
        return (now["delay_sum_ns"] - before["delay_sum_ns"]) / packets / _MS if packets else 0.0

    def close(self) -> None:
        self._simulation = None

    def _start(self) -> None: ...
    def _act(self, action: Any) -> None:
        raise NotImplementedError

    def _observe(self, before: dict[str, Any], now: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _reward(self, before: dict[str, Any], now: dict[str, Any]) -> float:
        raise NotImplementedError


def _box(*highs: float) -> gymnasium.spaces.Box:
    return gymnasium.spaces.Box(0.0, numpy.array(highs, numpy.float32), dtype=numpy.float32)


def bottleneck(
    *, rate: str = "10mbit", delay: str = "20ms", flows: int = 4, duration: str = "20s", queue: Any = None
) -> Scenario:
    """Some transfers over one bottleneck, ``r->b``."""
    net = Scenario(duration=duration, hosts=[f"a{{1..{flows}}}", "b"], routers=["r"])
    net.link(f"a{{1..{flows}}}", "r", rate="1gbit", delay="1ms")
    net.link("r", "b", rate=rate, delay=delay, watch=True, queue=queue if queue is not None else {"kind": "fifo"})
    return net.flow("bulk", f"a{{1..{flows}}}", "b", jitter="1s", workload={"kind": "bulk"})


class AqmEnv(_Env):
    """The drop probability of a queue.

    Action, ``Box(1)`` of float32: the probability with which an arriving packet is dropped, 0 to 1. Observation, ``Box(4)``
    of float32: packets queued; mean queueing delay of the last interval, in ms; rate of the link, in Mbit/s; packets dropped
    in the interval. Reward: the rate in Mbit/s, less ``delay_cost`` for each ms of delay above ``target_ms``. The queue is in
    Rust, and no call of Python is made for a packet.
    """

    def __init__(
        self, *, interval_ns: int = 20 * _MS, target_ms: float = 5.0, delay_cost: float = 0.1, **scenario: Any
    ) -> None:
        """``scenario`` has the arguments of :func:`bottleneck`, but for ``queue``."""
        self.decider = Decider(packets=1000)
        self.target_ms, self.delay_cost = target_ms, delay_cost
        super().__init__(bottleneck(queue=self.decider, **scenario), "r->b", interval_ns)
        self.action_space = _box(1.0)
        self.observation_space = _box(1000.0, 1e6, 1e6, 1e6)

    def _start(self) -> None:
        self.decider.probability = 0.0

    def _act(self, action: Any) -> None:
        self.decider.probability = min(max(float(numpy.asarray(action).reshape(-1)[0]), 0.0), 1.0)

    def _observe(self, before: dict[str, Any], now: dict[str, Any]) -> Any:
        dropped = now["dropped_packets"] - before["dropped_packets"]
        seen = [now["backlog_packets"], self._delay_ms(before, now), self._rate(before, now, "sent_bytes"), dropped]
        return numpy.array(seen, numpy.float32)

    def _reward(self, before: dict[str, Any], now: dict[str, Any]) -> float:
        late = max(0.0, self._delay_ms(before, now) - self.target_ms)
        return self._rate(before, now, "sent_bytes") - self.delay_cost * late


class CongestionEnv(_Env):
    """The sending rate of a datagram flow beside transfers by TCP.

    Action, ``Box(1)`` of float32: the rate, as a share of that of the bottleneck, 0.01 to 1.5. Observation, ``Box(4)`` of
    float32: goodput of the flow in Mbit/s; its packets that were dropped in the interval; mean queueing delay of the
    bottleneck in ms; packets queued. Reward: the goodput in Mbit/s, less ``delay_cost`` for each ms of delay, less
    ``loss_cost`` for each lost packet.
    """

    def __init__(
        self,
        *,
        rate_bps: int = 10_000_000,
        interval_ns: int = 100 * _MS,
        delay_cost: float = 0.02,
        loss_cost: float = 0.01,
        rivals: int = 1,
        duration: str = "20s",
    ) -> None:
        net = Scenario(duration=duration, hosts=["a", "c", "b"], routers=["r"])
        net.link("a", "r", rate="1gbit", delay="1ms").link("c", "r", rate="1gbit", delay="1ms")
        net.link("r", "b", rate_bps=rate_bps, delay="20ms", watch=True, queue={"kind": "fifo", "limit": "100kB"})
        net.flow("own", "a", "b", workload={"kind": "constant", "rate": f"{rate_bps // 10}bit"})
        for rival in range(rivals):
            net.flow(f"rival{rival}", "c", "b", jitter="1s", workload={"kind": "bulk"})
        super().__init__(net, "r->b", interval_ns)
        self._rate_bps, self.delay_cost, self.loss_cost = rate_bps, delay_cost, loss_cost
        self.action_space = gymnasium.spaces.Box(0.01, 1.5, (1,), numpy.float32)
        self.observation_space = _box(1e6, 1e6, 1e6, 1e6)

    def _look(self) -> dict[str, Any]:
        link = super()._look()
        assert self._simulation is not None
        link["own"] = self._simulation.look()["flows"][0]
        return link

    def _act(self, action: Any) -> None:
        share = min(max(float(numpy.asarray(action).reshape(-1)[0]), 0.01), 1.5)
        assert self._simulation is not None, "reset comes first"
        rate = f"{int(share * self._rate_bps)}bit"
        done = self._simulation.act("workload", flow="own", workload={"kind": "constant", "rate": rate})
        if done["refused"]:
            raise RuntimeError(done["result"]["refused"])

    def _own(self, before: dict[str, Any], now: dict[str, Any]) -> tuple[float, int]:
        goodput = self._rate(before["own"], now["own"], "goodput_bytes")
        return goodput, now["own"]["dropped_packets"] - before["own"]["dropped_packets"]

    def _observe(self, before: dict[str, Any], now: dict[str, Any]) -> Any:
        seen = [*self._own(before, now), self._delay_ms(before, now), now["backlog_packets"]]
        return numpy.array(seen, numpy.float32)

    def _reward(self, before: dict[str, Any], now: dict[str, Any]) -> float:
        goodput, lost = self._own(before, now)
        return goodput - self.delay_cost * self._delay_ms(before, now) - self.loss_cost * lost


class ShaperEnv(_Env):
    """The rate of a shaper in front of a line whose rate changes, as that of a cellular or cable modem.

    Action, ``Box(1)`` of float32: the rate of the shaper in Mbit/s, 0.1 to 20. Observation, ``Box(3)`` of float32: rate of
    the line that was used, in Mbit/s; packets queued before the line; mean queueing delay there in ms. Reward: the rate that
    was used in Mbit/s, less ``delay_cost`` for each ms of delay before the line, where no discipline helps.
    """

    def __init__(self, *, interval_ns: int = 100 * _MS, delay_cost: float = 0.1, duration: str = "20s") -> None:
        net = Scenario(duration=duration, hosts=["a", "b"], routers=["r", "m"])
        net.link("a", "r", rate="1gbit", delay="1ms")
        net.link("r", "m", rate="100mbit", delay="1ms", queue={"shaper": {"class": [
            {"name": "all", "rate": "8mbit", "default": True}]}})
        steps = [{"at": "0s", "rate": "10mbit"}, {"at": "5s", "rate": "4mbit"}, {"at": "10s", "rate": "12mbit"},
                 {"at": "15s", "rate": "6mbit"}]
        net.link("m", "b", rate="10mbit", delay="20ms", watch=True, queue={"kind": "fifo", "limit": "200kB"},
                 rate_over_time={"kind": "steps", "steps": steps})
        net.flow("bulk", "a", "b", workload={"kind": "bulk"})
        super().__init__(net, "m->b", interval_ns)
        self.delay_cost = delay_cost
        self.action_space = gymnasium.spaces.Box(0.1, 20.0, (1,), numpy.float32)
        self.observation_space = _box(1e6, 1e6, 1e6)

    def _act(self, action: Any) -> None:
        rate = min(max(float(numpy.asarray(action).reshape(-1)[0]), 0.1), 20.0)
        assert self._simulation is not None, "reset comes first"
        values = {"rate": f"{int(rate * 1000)}kbit"}
        done = self._simulation.act("set", "r", "m", section="class", name="all", values=values)
        if done["refused"]:
            raise RuntimeError(done["result"]["refused"])

    def _observe(self, before: dict[str, Any], now: dict[str, Any]) -> Any:
        seen = [self._rate(before, now, "sent_bytes"), now["backlog_packets"], self._delay_ms(before, now)]
        return numpy.array(seen, numpy.float32)

    def _reward(self, before: dict[str, Any], now: dict[str, Any]) -> float:
        return self._rate(before, now, "sent_bytes") - self.delay_cost * self._delay_ms(before, now)


class VectorEnv(gymnasium.vector.VectorEnv):
    """Several environments of one kind; their simulations step at the same time, in Rust.

    Observations have the shape ``(num_envs, n)``, rewards ``(num_envs,)``. An episode that has ended is reset by the next
    step (``AutoresetMode.NEXT_STEP``).
    """

    def __init__(self, environments: list[_Env]) -> None:
        self.environments = environments
        self.num_envs = len(environments)
        self.single_observation_space = environments[0].observation_space
        self.single_action_space = environments[0].action_space
        batch = gymnasium.vector.utils.batch_space
        self.observation_space = batch(self.single_observation_space, self.num_envs)
        self.action_space = batch(self.single_action_space, self.num_envs)
        self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}
        self._ended = [False] * self.num_envs

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Resets all, with seeds ``seed``, ``seed + 1``, ... or those of a list."""
        seeds: list[int | None]
        if isinstance(seed, int):
            seeds = [seed + number for number in range(self.num_envs)]
        else:
            seeds = list(seed) if seed is not None else [None] * self.num_envs
        self._ended = [False] * self.num_envs
        found = [one.reset(seed=chosen)[0] for one, chosen in zip(self.environments, seeds)]
        return numpy.stack(found), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Acts in all, runs all for their interval, and looks."""
        running = [number for number in range(self.num_envs) if not self._ended[number]]
        for number in running:
            one = self.environments[number]
            one._act(actions[number])
            one._end_ns += one.interval_ns
        chosen = [self.environments[number] for number in running]
        run_all([one._simulation for one in chosen if one._simulation], [one._end_ns for one in chosen])
        observations, rewards, truncated = [], numpy.zeros(self.num_envs), numpy.zeros(self.num_envs, bool)
        for number, one in enumerate(self.environments):
            if self._ended[number]:
                observations.append(one.reset()[0])
            else:
                observation, rewards[number], _, truncated[number], _ = one._after()
                observations.append(observation)
        self._ended = truncated.tolist()
        return numpy.stack(observations), rewards, numpy.zeros(self.num_envs, bool), truncated, {}

    def close_extras(self, **_: Any) -> None:
        for one in self.environments:
            one.close()
