"""Deciders: functions, and numbers that are set while a run goes on."""

from __future__ import annotations

import ctypes
import gc
import shutil
import subprocess

import pytest
import tidegate
from conftest import dumbbell


def test_a_function_decides():
    seen = []

    def late(now_ns, packets, size, delay_ns, arriving):
        seen.append((now_ns, packets, size, delay_ns, arriving))
        return 0.2 if delay_ns > 20_000_000 else 0.0

    net = dumbbell(queue=tidegate.Decider(late, packets=500))
    plain = dumbbell(queue=tidegate.Decider(packets=500))
    ours, other = tidegate.simulate(net), tidegate.simulate(plain)
    assert ours.value("link r->b", "queueing mean") < other.value("link r->b", "queueing mean")
    assert ours.value("link r->b", "dropped for early") > 0
    assert ours.digest == tidegate.simulate(net).digest and len(seen) > 100 and max(entry[1] for entry in seen) < 500


def test_a_decision_holds_for_a_time():
    calls = []

    def late(now_ns, packets, size, delay_ns, arriving):
        calls.append(now_ns)
        return 0.2 if delay_ns > 20_000_000 else 0.0

    checked = dumbbell(queue=tidegate.Decider(late, every_ns=15_000_000)).check()
    # Checking asks the queue of another network.
    calls.clear()
    results = tidegate.simulate(checked)
    assert len(calls) > 100 and all(two - one >= 15_000_000 for one, two in zip(calls, calls[1:]))
    assert results.value("link r->b", "dropped for early") > 0


def test_a_number_is_set_on_the_way():
    decider = tidegate.Decider()
    simulation = tidegate.Simulation(dumbbell(queue=decider), seed=1)
    simulation.run_until("1s")
    decider.probability = 1.0
    assert decider.probability == 1.0
    # What waited at 1 s is gone at 3 s.
    simulation.run_until("3s")
    before = simulation.look()["flows"][0]["goodput_bytes"]
    simulation.run_until("4s")
    assert simulation.look()["flows"][0]["goodput_bytes"] - before < 300_000
    with pytest.raises(ValueError, match="between 0 and 1"):
        decider.probability = 1.5
    with pytest.raises(ValueError, match="between 0 and 1"):
        tidegate.Decider(probability=float("nan"))


def test_mistakes():
    for function, error in ((lambda *_: 2.0, ValueError), (lambda *_: "x", TypeError), (lambda: 0, TypeError)):
        with pytest.raises(error):
            tidegate.simulate(dumbbell(queue=tidegate.Decider(function)))
    with pytest.raises(ValueError, match="function decides"):
        tidegate.Decider(lambda *_: 0.0).probability = 0.5
    table = tidegate.Decider().to_dict()
    with pytest.raises(tidegate.ConfigError, match="no more"):
        dumbbell(queue=table).check()


def test_marks_where_the_transport_can_react():
    net = dumbbell(queue=tidegate.Decider(probability=0.02, mark=True))
    net._lists["flow"][0]["tcp"] = {"ecn": True}
    results = tidegate.simulate(net)
    assert results.value("link r->b", "marked") > 0 == results.value("link r->b", "dropped")


def test_a_function_that_numba_compiled():
    numba = pytest.importorskip("numba")

    def late(now_ns, packets, size, delay_ns, arriving):
        return 0.2 if delay_ns > 20_000_000 else 0.0

    other = tidegate.simulate(dumbbell(queue=tidegate.Decider(late))).digest
    for signature in ("float64(uint64, uint64, uint64, uint64, uint64)", "float64(int64, int64, int64, int64, int64)"):
        # The decider alone keeps what was compiled.
        net = dumbbell(queue=tidegate.Decider(numba.cfunc(signature)(late)))
        gc.collect()
        assert tidegate.simulate(net).digest == other
    kept = numba.cfunc(signature)(late)
    assert tidegate.simulate(dumbbell(queue=tidegate.Decider(kept.address))).digest == other
    with pytest.raises(TypeError, match="compile it as float64"):
        tidegate.Decider(numba.cfunc("float64(uint64, uint64)")(lambda now_ns, packets: 0.0))


def compiled_by_c(folder, text: str) -> ctypes.CDLL:
    """A library of C; without a compiler the test is skipped."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    (folder / "decide.c").write_text(text)
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", folder / "decide.so", folder / "decide.c"], check=True)
    return ctypes.CDLL(str(folder / "decide.so"))


LATE = """
#include <stdint.h>
double late(uint64_t now, uint64_t packets, uint64_t bytes, uint64_t delay, uint64_t size) {
    return delay > 20000000 ? 0.2 : 0.0;
}
double wrong(uint64_t now, uint64_t packets, uint64_t bytes, uint64_t delay, uint64_t size) { return 1.5; }
double rate(uint64_t now, uint64_t srtt, uint64_t least, uint64_t delivery, uint64_t losses) {
    return 1e6 + 1e5 * (losses % 10) + (delivery > 3000000) + srtt / (least + 1);
}
"""
INTEGERS = [ctypes.c_uint64] * 5


def test_code_at_an_address_decides(tmp_path):
    library = compiled_by_c(tmp_path, LATE)
    for function in (library.late, library.wrong):
        function.argtypes, function.restype = INTEGERS, ctypes.c_double
    address = ctypes.cast(library.late, ctypes.c_void_p).value

    def late(now_ns, packets, size, delay_ns, arriving):
        return 0.2 if delay_ns > 20_000_000 else 0.0

    expected = tidegate.simulate(dumbbell(queue=tidegate.Decider(late)), runs=2, jobs=2)
    assert expected.value("link r->b", "dropped for early") > 0
    for given in (library.late, address, ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_int64] * 5)(late)):
        net = dumbbell(queue=tidegate.Decider(given))
        del given
        assert tidegate.simulate(net, runs=2, jobs=2).digest == expected.digest
    with pytest.raises(ValueError, match="between 0 and 1, and not 1.5"):
        tidegate.simulate(dumbbell(queue=tidegate.Decider(library.wrong)))


def test_code_is_checked_before_it_is_called(tmp_path):
    library = compiled_by_c(tmp_path, LATE)
    # As `ctypes` has it before its types are set: any arguments, an int.
    with pytest.raises(TypeError, match=r"is int\(\): compile it as float64\(uint64"):
        tidegate.Decider(library.late)
    library.late.argtypes, library.late.restype = [*INTEGERS[1:], ctypes.c_double], ctypes.c_double
    with pytest.raises(TypeError, match="double"):
        tidegate.Decider(library.late)
    library.late.argtypes = INTEGERS[1:]
    with pytest.raises(TypeError, match="compile it as"):
        tidegate.Decider(library.late)
    for address in (0, 1, id(library), 2**64 - 1):
        with pytest.raises(ValueError, match=f"no code at address {address:#x}"):
            tidegate.Decider(address)
    for wrong in (-1, 2**64):
        with pytest.raises(OverflowError):
            tidegate.Decider(wrong)
    with pytest.raises(TypeError, match="no function of five"):
        tidegate.Decider("late")


def test_code_at_an_address_paces(tmp_path):
    library = compiled_by_c(tmp_path, LATE)
    library.rate.argtypes, library.rate.restype = INTEGERS, ctypes.c_double

    def rate(now_ns, srtt_ns, min_rtt_ns, delivery_bps, losses):
        return 1e6 + 1e5 * (losses % 10) + (delivery_bps > 3_000_000) + srtt_ns // (min_rtt_ns + 1)

    digests = set()
    for control in (rate, library.rate):
        net = dumbbell(loss="0.5%")
        net._lists["flow"][0]["tcp"] = {"congestion": control}
        digests.add(tidegate.simulate(net).digest)
    assert len(digests) == 1
