"""Paced sockets on loopback. That they never send too early holds on any machine; that they are not late is not asserted."""

from __future__ import annotations

import asyncio
import doctest
import signal
import socket
import threading
import time

import pytest
from tidegate import pace

#: Longer than anything here takes.
PATIENCE = 60
#: 1000 bytes in a millisecond.
RATE = "8mbit"


@pytest.fixture
def receiver():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiving:
        receiving.bind(("127.0.0.1", 0))
        receiving.settimeout(PATIENCE)
        yield receiving


def address(receiving: socket.socket) -> str:
    return "{}:{}".format(*receiving.getsockname())


def test_the_examples_of_the_module():
    assert doctest.testmod(pace).failed == 0


def test_threads_share_a_rate(receiver):
    start = time.monotonic()
    sender = pace.UdpSocket(address(receiver), RATE)
    threads = [threading.Thread(target=lambda: [sender.send(b"x" * 1000) for _ in range(10)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert time.monotonic() - start >= 0.029
    assert [len(receiver.recv(2000)) for _ in range(30)] == [1000] * 30
    status = sender.status()
    assert (status.packets, status.bytes, status.rate_bps, status.paused) == (30, 30_000, 8_000_000, False)


def test_batches_and_destinations(receiver):
    start = time.monotonic()
    sender = pace.UdpSocket(None, "40mbit", bind="127.0.0.1:0", burst="500us")
    for _ in range(3):
        assert sender.send(b"y" * 1000, address(receiver)) == 1000
    connected = pace.UdpSocket(address(receiver), "40mbit")
    assert connected.send_segments(b"z" * 50_500, 1000) == 50_500
    assert time.monotonic() - start >= 0.010
    assert [len(receiver.recv(2000)) for _ in range(54)] == [1000] * 53 + [500]
    assert connected.backend and len(connected.told) == 3


def test_a_signal_interrupts_a_wait(receiver):
    # 1000 bytes in 800 s.
    sender = pace.UdpSocket(address(receiver), "10bit")
    sender.send(b"x" * 1000)

    class Interrupted(Exception):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupted):
            sender.send(b"x" * 1000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert sender.status().packets == 1


def test_a_change_wakes_a_thread(receiver):
    sender = pace.UdpSocket(address(receiver), "10bit")
    sender.send(b"x" * 1000)
    waiting = threading.Thread(target=sender.send, args=(b"x" * 1000,))
    waiting.start()
    time.sleep(0.02)
    assert waiting.is_alive()
    sender.set_rate(RATE)
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


def test_tasks_take_turns_and_many_sockets_share_a_loop(receiver):
    async def main() -> None:
        start = time.monotonic()
        shared = pace.AsyncUdpSocket(address(receiver), RATE)
        await asyncio.gather(*[repeat(shared, task, 10) for task in b"abc"])
        assert time.monotonic() - start >= 0.029
        order = [receiver.recv(2000)[0] for _ in range(30)]
        assert order[3:27] == order[3:6] * 8
        start = time.monotonic()
        sockets = [pace.AsyncUdpSocket(address(receiver), f"{800 // (n + 1)}kbit") for n in range(20)]
        await asyncio.gather(*[repeat(each, 0, 3) for each in sockets])
        # The slowest, at 40 kbit/s: two gaps of 200 ms.
        assert time.monotonic() - start >= 0.399

    async def repeat(sender: pace.AsyncUdpSocket, fill: int, times: int) -> None:
        for _ in range(times):
            assert await sender.send(bytes([fill]) * 1000) == 1000

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_a_cancelled_send_has_sent_nothing(receiver):
    async def main() -> None:
        start = time.monotonic()
        sender = pace.AsyncUdpSocket(address(receiver), "40kbit")
        await sender.send(b"a" * 1000)
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(sender.send(b"b" * 1000), 0.005)
        assert sender.status().packets == 1
        await sender.send(b"c" * 1000)
        assert time.monotonic() - start >= 0.199
        sender.pause()
        waiting = asyncio.ensure_future(sender.send(b"d" * 1000))
        await asyncio.sleep(0.01)
        assert sender.status().paused and not waiting.done()
        sender.set_rate(RATE)
        sender.resume()
        assert await waiting == 1000
        assert await sender.send_segments(b"e" * 2500, 1000) == 2500
        assert [receiver.recv(2000)[:1] for _ in range(6)] == [b"a", b"c", b"d", b"e", b"e", b"e"]

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("127.0.0.1:9", "0mbit"), "rate"),
        (("127.0.0.1:9", "fast"), "rate: "),
        ((None, RATE), "neither a peer"),
    ],
)
def test_wrong_arguments(arguments, text):
    with pytest.raises(ValueError, match=text):
        pace.UdpSocket(*arguments)
    for options in ({"backend": "magic"}, {"spin": 101}, {"burst": "long"}, {"towards": "nowhere"}):
        with pytest.raises(ValueError):
            pace.UdpSocket("127.0.0.1:9", RATE, **options)
    with pytest.raises(TypeError):
        pace.UdpSocket("127.0.0.1:9", RATE, speed=1)
