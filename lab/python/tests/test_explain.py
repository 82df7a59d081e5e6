"""Explanations of recordings and captures."""

from __future__ import annotations

import pathlib

import pytest
import tidegate

SEEDS = pathlib.Path(__file__).parents[3] / "tools/fuzz/seeds"
RECORDING, CAPTURE = SEEDS / "recording/small.tgr", SEEDS / "replay/micro.pcap"
OFFICE = {
    "class": [{"name": "calls", "rate": "1mbit"}, {"name": "rest", "rate": "1mbit", "default": True}],
    "rule": [{"class": "calls", "protocol": "udp", "destination-port": 5004}],
}


def test_a_packet_of_a_recording():
    explained = tidegate.explain(RECORDING, 1)
    assert explained["packet"] == 1 and explained["belongs"]["class"] and explained["waiting_packets"] >= 0
    assert explained["end"]["how"] in ("passed", "dropped", "cut", "went-back", "unknown")
    # The record of this packet is one of the first.
    for event in range(20):
        try:
            found = tidegate.explain(RECORDING, event=event)
        except tidegate.TidegateError as error:
            assert "record" in str(error) or "packet" in str(error)
            continue
        assert found == explained
        break
    else:
        pytest.fail("no record has the first packet")


def test_a_packet_of_a_capture():
    explained = tidegate.explain(CAPTURE, 1, configuration=OFFICE, link="10mbit")
    assert explained["belongs"]["class"] in ("calls", "rest")
    assert [rule["rule"] for rule in explained["belongs"]["rules"]] == [1]


def test_mistakes(tmp_path):
    for arguments, text in (
        ({"packet": 0}, "from 1"),
        ({}, "packet= or by event="),
        ({"packet": 1, "event": 1}, "packet= or by event="),
        ({"packet": 1, "configuration": OFFICE}, "its own configuration"),
    ):
        with pytest.raises(ValueError, match=text):
            tidegate.explain(RECORDING, **arguments)
    with pytest.raises(ValueError, match="configuration="):
        tidegate.explain(CAPTURE, 1)
    with pytest.raises(ValueError, match="no unit|fast"):
        tidegate.explain(CAPTURE, 1, configuration=OFFICE, link="fast")
    with pytest.raises(tidegate.ConfigError, match="<configuration>"):
        tidegate.explain(CAPTURE, 1, configuration={"class": []})
    for path in (RECORDING, CAPTURE):
        with pytest.raises(tidegate.TidegateError, match="numbered 1 to"):
            tidegate.explain(path, 10**9, configuration=OFFICE if path == CAPTURE else None)
    with pytest.raises(OSError):
        tidegate.explain(tmp_path / "none.tgr", 1)
    (tmp_path / "text").write_text("neither")
    with pytest.raises((OSError, tidegate.TidegateError)):
        tidegate.explain(tmp_path / "text", 1, configuration=OFFICE)
