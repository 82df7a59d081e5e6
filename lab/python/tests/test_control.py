"""The client of the control protocol, against a server that replies what the pages of the protocol have."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import re
import socket
import threading

import pytest
import tidegate

CALLS = pathlib.Path(__file__).parents[3] / "book/src/reference/control-calls.md"


def exchanges() -> dict[str, tuple[dict, dict]]:
    """The example of each call in the page that is generated from the declarations."""
    found = re.findall(r"^> (\{.*\})\n< (\{.*\})$", CALLS.read_text(), re.MULTILINE)
    pairs = [(json.loads(request), json.loads(reply)) for request, reply in found]
    return {request["call"]: (request, reply) for request, reply in pairs}


@pytest.fixture
def server(tmp_path):
    """A socket that replies as the page has it, with a notification before each reply of a subscription."""
    path = str(tmp_path / "eth0.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    seen: list[dict] = []
    examples = exchanges()

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            with client, client.makefile("rb") as lines:
                for line in lines:
                    request = json.loads(line)
                    seen.append(request)
                    if request["call"] not in examples:
                        error = {"code": "unknown-call", "message": "no such call", "help": "see the page"}
                        answers = [{"id": request["id"], "error": error}]
                    else:
                        reply = examples[request["call"]][1]["ok"]
                        answers = [{"id": request["id"], "ok": reply}]
                        if "subscription" in reply:
                            event = {"subscription": reply["subscription"], "event": {"event": "flow-started"}}
                            answers = [event, *answers, event]
                    client.sendall(b"".join(json.dumps(answer).encode() + b"\n" for answer in answers))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield path, seen
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def test_every_call_of_the_protocol_is_made_and_understood(server):
    path, seen = server
    with tidegate.connect(path) as shaper:
        for name, (request, reply) in exchanges().items():
            parameters = request.get("with", {})
            if name in ("events", "feedback", "unsubscribe"):
                assert shaper.call(name, **parameters) == reply["ok"]
            else:
                method = getattr(shaper, name.replace("-", "_"))
                assert method(**{("class_" if key == "class" else key): value for key, value in parameters.items()}) == reply["ok"]
            assert seen[-1]["call"] == name and seen[-1]["with"] == parameters and seen[-1]["version"] == 1


def test_subscriptions_and_refusals(server):
    path, _ = server
    with tidegate.connect(path) as shaper:
        events = shaper.events(kinds=["flow-started"])
        assert [next(events)["event"] for _ in range(2)] == ["flow-started"] * 2
        subscription = shaper.promise({"port": 5004}, prefer=1)["subscription"]
        assert next(shaper.notifications(subscription))["event"] == "flow-started"
        # There are no more than those before and after the reply; the connection can be used after a wait for others.
        assert len(list(shaper.notifications(subscription, timeout_s=0.2))) == 1
        assert list(shaper.notifications(subscription, timeout_s=0)) == []
        present, _ = shaper.feedback(target={"port": 5004})
        assert present[0]["class"] == "media"
        with pytest.raises(tidegate.control.ControlError, match="no such call; see the page") as caught:
            shaper.call("nonsense")
        assert caught.value.code == "unknown-call"


def test_async(server):
    path, _ = server

    async def work():
        async with await tidegate.connect_async(path) as shaper:
            status, classes = await asyncio.gather(shaper.status(), shaper.classes())
            events = shaper.events()
            first = (await anext(events))["event"]
            present, notifications = await shaper.feedback(target={"port": 5004})
            with pytest.raises(tidegate.control.ControlError, match="no such call"):
                await shaper.call("nonsense")
            return status["interface"], classes["interface"], first, present[0]["class"], (await anext(notifications))["event"]

    assert asyncio.run(work()) == ("eth0", "eth0", "flow-started", "media", "flow-started")


def test_the_shaper_of_the_own_namespace_is_meant(server, tmp_path, monkeypatch):
    path, _ = server
    monkeypatch.setattr(tidegate.control, "_directories", lambda: [str(tmp_path)])
    other = socket.socket(socket.AF_UNIX)
    other.bind(str(tmp_path / "eth1.sock"))
    other.listen()
    own = exchanges()["status"][1]["ok"]["network_namespace"]
    monkeypatch.setattr(tidegate.control, "_own_namespace", lambda: own)
    assert tidegate.control.find() == path
    monkeypatch.setattr(tidegate.control, "_own_namespace", lambda: own + 1)
    with pytest.raises(tidegate.control.ControlError, match="several"):
        tidegate.control.find()


def test_where_nothing_runs(tmp_path, monkeypatch):
    with pytest.raises(tidegate.control.ControlError, match="is it running"):
        tidegate.connect(str(tmp_path / "none.sock"))
    monkeypatch.setattr(tidegate.control, "_directories", lambda: [str(tmp_path)])
    with pytest.raises(tidegate.control.ControlError, match="tidegate run"):
        tidegate.connect()
    # A shaper that was killed leaves its socket.
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "wan0.sock"))
    left.close()
    with pytest.raises(tidegate.control.ControlError, match="nothing listens") as caught:
        tidegate.connect()
    assert caught.value.code == tidegate.protocol.Code.NOT_FOUND
    listening = []
    for name in ("eth0.sock", "eth1.sock"):
        listening.append(socket.socket(socket.AF_UNIX))
        listening[-1].bind(str(tmp_path / name))
        listening[-1].listen()
        if len(listening) == 1:
            assert tidegate.control.find() == str(tmp_path / "eth0.sock")
    with pytest.raises(tidegate.control.ControlError, match="several"):
        tidegate.connect()
    assert tidegate.control.find("eth1") == str(tmp_path / "eth1.sock")
    # One that was killed hides none that listens.
    own = tidegate.control._own_namespace()
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / f"eth1@{own}.sock"))
    left.close()
    assert tidegate.control.find("eth1") == str(tmp_path / "eth1.sock")
    assert tidegate.control.find("wan0") == str(tmp_path / "wan0.sock")


def test_a_directory_in_which_others_may_write_leads_nowhere(tmp_path, monkeypatch):
    base, directory = tmp_path / "run", tmp_path / "run" / "tidegate"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(base))
    found = [tidegate.protocol.DIRECTORY, str(directory)]
    assert tidegate.control._directories() == found[:1]
    base.mkdir(mode=0o755)
    assert tidegate.control._directories() == found, "a shaper makes it"
    directory.mkdir(mode=0o755)
    for path in (base, directory):
        assert tidegate.control._directories() == found
        path.chmod(0o1777)
        assert tidegate.control._directories() == found[:1]
        path.chmod(0o755)
        # Only root can give a directory away.
        if os.geteuid() == 0:
            os.chown(path, 65534, -1)
            assert tidegate.control._directories() == found[:1]
            os.chown(path, 0, -1)
    directory.rename(tmp_path / "elsewhere")
    directory.symlink_to(tmp_path / "elsewhere")
    assert tidegate.control._directories() == found[:1]
