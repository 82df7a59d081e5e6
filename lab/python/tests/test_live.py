"""A real shaper in a network namespace of its own, through the control socket."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import subprocess
import time

import pytest
import tidegate

COMMAND = pathlib.Path(os.environ.get("TIDEGATE_BIN", pathlib.Path(__file__).parents[3] / "target/debug/tidegate"))
SHAPER = """
version = 1
[[class]]
name = "media"
rate = "5mbit"
dscp = "af11"
[[class]]
name = "rest"
rate = "5mbit"
default = true
"""
START = """
ip link add left type veth peer name right && ip addr add 10.9.9.1/24 dev left && ip addr add 10.9.9.2/24 dev right \
&& ip link set left up && ip link set right up && exec "$0" run "$1" --interface left --control "$2"
"""


@pytest.fixture
def shaper(tmp_path):
    """The path of the control socket of a shaper that runs."""
    if not COMMAND.exists():
        pytest.skip(f"{COMMAND} is not there: cargo build -p tidegate makes it")
    if subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode != 0:
        pytest.skip("no network namespace of one's own can be made here")
    (tmp_path / "shaper.toml").write_text(SHAPER)
    path = tmp_path / "control.sock"
    with open(tmp_path / "log", "w+") as log:
        start = ["unshare", "-rn", "sh", "-c", START, COMMAND, tmp_path / "shaper.toml", path]
        process = subprocess.Popen(start, stdout=log, stderr=log)
        try:
            end = time.monotonic() + 60
            while not path.exists():
                if process.poll() is not None or time.monotonic() > end:
                    log.seek(0)
                    pytest.skip(f"no shaper runs here: {log.read()[-300:]}")
                time.sleep(0.05)
            yield str(path)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


@pytest.mark.long(60)
def test_status_promises_and_events_of_a_shaper(shaper):
    with tidegate.connect(shaper) as connection:
        status = connection.status()
        assert status["interface"] == "left"
        assert [found["name"] for found in status["directions"][0]["classes"]] == ["media", "rest"]
        asked = {"source": "10.9.9.1", "destination": "10.9.9.2", "protocol": 17, "destination_port": 5004}
        assert connection.explain(**asked)["class"] == "rest"
        assert "media" in connection.in_force()["text"]
        present, notifications = connection.feedback(target={"port": 5004})
        assert present == []
        with pytest.raises(tidegate.control.ControlError) as refused:
            connection.release(123)
        assert refused.value.code
        del notifications

    async def both():
        async with await tidegate.connect_async(shaper) as one, await tidegate.connect_async(shaper) as other:
            first, second, promises = await asyncio.gather(one.status(), other.classes(), one.promises())
            return first["interface"], second["interface"], promises

    assert asyncio.run(both())[:2] == ("left", "left")
