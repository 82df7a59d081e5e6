"""A TCP sender that follows what the shaper grants it: `python tcp_feedback.py ADDRESS:PORT SECONDS [--blind]`.

The kernel paces the socket (SO_MAX_PACING_RATE) at 97 % of the rate that its flow is granted, so that it does not fill the queue to
find that out. With --blind it sends as TCP does. The receiver may be `socat -u TCP-LISTEN:PORT,fork,reuseaddr /dev/null`.
"""

import socket
import sys
import threading
import time

import tidegate
from tidegate.protocol import TCP

#: Of Linux; the module `socket` has no name for it.
SO_MAX_PACING_RATE = 47


def follow(sender: socket.socket, port: int) -> None:
    with tidegate.connect() as shaper:
        target = {"protocol": TCP, "source_port": sender.getsockname()[1], "destination_port": port}
        present, events = shaper.feedback(target, kinds=["rate"])
        for flow in present:
            pace(sender, flow["granted_bps"])
        for event in events:
            if granted := event.get("granted_bps"):
                pace(sender, granted)


def pace(sender: socket.socket, granted_bps: int) -> None:
    sender.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, granted_bps * 97 // 800)


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--blind"]
    if len(words) != 2:
        sys.exit("usage: tcp_feedback.py ADDRESS:PORT SECONDS [--blind]")
    (address, _, port), seconds = words[0].rpartition(":"), float(words[1])
    sender = socket.create_connection((address, int(port)))
    if "--blind" not in sys.argv:
        threading.Thread(target=follow, args=(sender, int(port)), daemon=True).start()
    sent, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        sent += sender.send(bytes(1 << 14))
    print(f"{sent * 8 / seconds / 1e6:.2f} Mbit/s")


main()
