"""usage: datagrams.py receive ADDRESS FILE COUNT | send FROM TO [--segments PLACES | --pause]

Datagrams of QUIC with a SCONE packet in front (draft-ietf-scone-protocol), for kernel/try.

`send` sends five of them, with --pause three with half a second between them; with --segments one superpacket of six datagrams, of which those at PLACES (0,3) have one. `receive`
writes what each of COUNT datagrams was told to FILE: the signal, 127 for an unknown rate, `-` without a SCONE packet; or `broken`
where anything but the signal has changed. A wrong checksum shows as a datagram that does not come.
"""
import socket
import struct
import sys
import time

PORT, SIZE, VERSION = 4433, 1200, 0x6F7DC0FD
ID = bytes([0x5C, 1, 2, 3, 4, 5, 6, 7])
UDP_SEGMENT = 103


def packet(length: int, number: int) -> bytes:
    """A packet with a short header."""
    body = bytes((number * 7 + at) % 251 for at in range(length - 1 - len(ID)))
    return bytes([0x45]) + ID + body


def datagram(number: int, signal: int = 127) -> bytes:
    """The same behind a SCONE packet, every second one of which has a source connection id, as picoquic's have."""
    version = VERSION | (signal & 1) << 31
    source = b"\x04from" if number % 2 else b"\0"
    scone = bytes([0xC0 | signal >> 1]) + struct.pack(">IB", version, len(ID)) + ID + source
    return scone + packet(SIZE - len(scone), number)


def told(arrived: bytes) -> str:
    if arrived[0] & 0x80 == 0:
        return "-" if arrived in [packet(SIZE, n) for n in range(6)] else "broken"
    signal = (arrived[0] & 0x3F) << 1 | arrived[1] >> 7
    return str(signal) if arrived in [datagram(n, signal) for n in range(6)] else "broken"


def opened(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.socket(family, socket.SOCK_DGRAM)


def receive(address: str, file: str, count: str) -> None:
    with opened(address) as server, open(file, "w") as out:
        server.bind((address, PORT))
        server.settimeout(60)
        print("ready", flush=True)
        for _ in range(int(count)):
            try:
                print(told(server.recv(2_000)), file=out, flush=True)
            except TimeoutError:
                break


def send(source: str, to: str, pause: float = 0, places: str | None = None) -> None:
    with opened(source) as sender:
        sender.bind((source, 0))
        sender.connect((to, PORT))
        if places is None:
            for number in range(3 if pause else 5):
                sender.send(datagram(number))
                time.sleep(pause)
            return
        sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, SIZE)
        at = [int(place) for place in places.split(",")]
        sender.send(b"".join(datagram(n) if n in at else packet(SIZE, n) for n in range(6)))


match sys.argv[1:]:
    case ["receive", address, file, count]:
        receive(address, file, count)
    case ["send", source, to]:
        send(source, to)
    case ["send", source, to, "--segments", places]:
        send(source, to, places=places)
    case ["send", source, to, "--pause"]:
        send(source, to, pause=0.5)
    case _:
        sys.exit(__doc__)
