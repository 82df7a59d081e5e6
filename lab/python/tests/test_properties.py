"""What Python builds, Rust reads, and the other way."""

from __future__ import annotations

import tidegate
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tidegate import toml

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    tomllib = None

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
# A scenario takes no text that a terminal would not show.
sentences = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
plain = st.one_of(texts, st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.booleans())
values = st.recursive(plain, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)))


@given(st.dictionaries(texts, values, max_size=5))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_what_is_written_reads_back(table):
    if tomllib is not None:
        assert tomllib.loads(toml.dumps(table)) == table


@given(sentences, st.integers(1, 10**12), st.integers(0, 10**12), st.integers(0, 2**64 - 1))
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_rust_reads_what_python_builds(sentence, rate, delay, seed):
    net = tidegate.Scenario(duration="1ms", sentence=sentence, hosts=["a", "b"], seed=seed % 2**63)
    net.link("a", "b", rate_bps=rate, delay_ns=delay).flow("f", "a", "b", workload={"kind": "bulk"})
    checked = net.check()
    assert (checked.sentence, checked.duration_ns, checked.seed) == (sentence, 1_000_000, seed % 2**63)
    results = tidegate.simulate(checked, seed=seed)
    assert results.seeds == [seed] and tidegate.simulate(net.to_dict(), seed=seed).digest == results.digest


@given(st.dictionaries(st.sampled_from(["duration", "hosts", "link", "flow", "variant", "at", "x"]), values, max_size=5))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_that_is_no_scenario_does_more_than_raise(table):
    try:
        tidegate.load({"version": 1, **table})
    except tidegate.ConfigError as error:
        assert str(error) and error.findings


@given(st.text(max_size=60))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_script_does_more_than_raise(text):
    try:
        tidegate.script(text.encode("utf-8", "replace").decode() + "\n")
    except tidegate.ConfigError as error:
        assert str(error)
