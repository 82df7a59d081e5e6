#!/bin/bash
# live.sh flood|paced nothing|htb|tidegate [PROGRAM]: a shaper on a veth pair between two namespaces, whose traffic stays there. Needs
# root, iperf3 and python3. Prints lines `NAME FIGURE`.
# flood: two classes of 1 and 30 Gbit/s; 64-byte UDP as fast as one thread sends it, and one TCP stream: `udp PACKETS_A_SECOND`,
#   `tcp BIT_A_SECOND`; of tidegate also `cpu NANOSECONDS_A_PACKET` of UDP, `start MILLISECONDS`, `status MILLISECONDS`.
# paced: one class of 20, 100 and 500 Mbit/s, sent a fifth more in packets of 1,400 bytes: for each rate `gap-RATE MICROSECONDS`, the 99th
#   percentile of the distance of a gap between two packets from the mean gap; of tidegate also `cpu-RATE PERCENT` of a processor.
set -euo pipefail
usage() { echo "usage: live.sh flood|paced nothing|htb|tidegate [PROGRAM]" >&2; exit 2; }
[ $# -ge 2 ] || usage
for tool in ip tc iperf3 python3; do command -v $tool >/dev/null || { echo "$tool is not installed" >&2; exit 1; }; done
way=$1 kind=$2 program=${3:-}
left=bench$$a right=bench$$b scratch=$(mktemp -d)
shaper=""
stop() {
    [ -z "$shaper" ] || { kill -INT "$shaper" 2>/dev/null || true; wait "$shaper" 2>/dev/null || true; }
    shaper=""
}
end() {
    stop
    ip netns del $left 2>/dev/null || true
    ip netns del $right 2>/dev/null || true
    rm -rf "$scratch"
}
trap end EXIT
for name in $left $right; do ip netns add $name; ip -n $name link set lo up; done
ip link add pa netns $left type veth peer name pb netns $right
ip -n $left addr add 10.71.1.1/24 dev pa
ip -n $right addr add 10.71.1.2/24 dev pb
ip -n $left link set pa up
ip -n $right link set pb up
milliseconds() { echo $((($(date +%s%N) - $1) / 1000000)); }
ticks() { [ -z "$shaper" ] && echo 0 || awk '{ print $14 + $15 }' "/proc/$shaper/stat"; }
status() { ip netns exec $left "$program" status --control "$scratch/control" >/dev/null 2>&1; }
# Starts tidegate with the file on standard input, and waits until it answers.
start() {
    cat >"$scratch/shaper.toml"
    ip netns exec $left "$program" run "$scratch/shaper.toml" --interface pa --control "$scratch/control" >"$scratch/log" 2>&1 &
    shaper=$!
    for _ in $(seq 500); do
        status && return
        kill -0 $shaper 2>/dev/null || break
    done
    cat "$scratch/log" >&2
    exit 1
}
class() { tc -n $left class add dev pa parent "$1" classid "$2" htb rate "$3" ceil "$4" burst "$5" cburst "$5" quantum 60000; }

flood() {
    case $kind in
        nothing) ;;
        htb)
            tc -n $left qdisc add dev pa root handle 1: htb default 10
            class 1: 1:1 31gbit 31gbit 4m
            class 1:1 1:10 30gbit 31gbit 4m
            class 1:1 1:20 1gbit 31gbit 1m
            ;;
        tidegate)
            begin=$(date +%s%N)
            start <<TOML
version = 1
[[class]]
name = "bulk"
rate = "30gbit"
burst = "4MB"
limit = "16MB"
default = true
[[class]]
name = "calls"
rate = "1gbit"
burst = "1MB"
[[rule]]
class = "calls"
destination-port = 5004
TOML
            echo "start $(milliseconds "$begin")"
            begin=$(date +%s%N)
            for _ in 1 2 3 4 5; do status; done
            echo "status $(($(milliseconds "$begin") / 5))"
            ;;
        *) usage ;;
    esac
    ip netns exec $right iperf3 -s -1 -p 5302 >/dev/null 2>&1 &
    sleep 0.3
    received() { ip netns exec $right cat /sys/class/net/pb/statistics/rx_packets; }
    before=$(received) used=$(ticks) begin=$(date +%s%N)
    ip netns exec $left iperf3 -u -b 0 -l 22 -t 2 -c 10.71.1.2 -p 5302 >/dev/null 2>&1 || true
    count=$(($(received) - before))
    echo "udp $((count * 1000 / $(milliseconds "$begin")))"
    [ -z "$shaper" ] || echo "cpu $((($(ticks) - used) * 1000000000 / $(getconf CLK_TCK) / count))"
    ip netns exec $right iperf3 -s -1 -p 5301 >/dev/null 2>&1 &
    sleep 0.3
    ip netns exec $left iperf3 -c 10.71.1.2 -p 5301 -t 2 -J |
        python3 -c 'import json, sys; print("tcp", round(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"]))'
}

paced() {
    for rate in 20 100 500; do
        case $kind in
            nothing) ;;
            htb)
                tc -n $left qdisc del dev pa root 2>/dev/null || true
                tc -n $left qdisc add dev pa root handle 1: htb default 10
                class 1: 1:10 ${rate}mbit ${rate}mbit 3000
                ;;
            tidegate)
                start <<TOML
version = 1
[[class]]
name = "line"
rate = "${rate}mbit"
default = true
TOML
                ;;
            *) usage ;;
        esac
        # Gaps by the kernel's time of arrival; the first packets, sent while the bucket is full, are left out.
        ip netns exec $right python3 - $rate <<'PYTHON' &
import socket, struct, sys, time
rate = int(sys.argv[1])
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.setsockopt(socket.SOL_SOCKET, 33, 1 << 25)  # SO_RCVBUFFORCE
receiver.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
receiver.bind(("10.71.1.2", 9000))
receiver.settimeout(1)
times = []
try:
    while True:
        _, ancillary, _, _ = receiver.recvmsg(1, 64)
        seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
        times.append(seconds * 10**9 + nanoseconds)
except TimeoutError:
    pass
times = times[len(times) // 5 :]
if len(times) < 100:
    sys.exit("too few packets arrived")
gaps = [after - before for before, after in zip(times, times[1:])]
mean = sum(gaps) / len(gaps)
errors = sorted(abs(gap - mean) for gap in gaps)
print(f"gap-{rate} {errors[len(errors) * 99 // 100] / 1000:.1f}", flush=True)
PYTHON
        listener=$!
        sleep 0.3
        used=$(ticks) begin=$(date +%s%N)
        ip netns exec $left python3 - $rate <<'PYTHON'
import socket, sys, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.connect(("10.71.1.2", 9000))
payload, interval = bytes(1372), 1400 * 8 / (float(sys.argv[1]) * 1e6 * 1.2)
begin, sent = time.monotonic(), 0
while (passed := time.monotonic() - begin) < 1.5:
    while sent * interval < passed:
        try:
            sender.send(payload)
        except OSError:
            pass
        sent += 1
    time.sleep(0.0005)
PYTHON
        [ -z "$shaper" ] || echo "cpu-$rate $((($(ticks) - used) * 100000 / $(getconf CLK_TCK) / $(milliseconds "$begin")))"
        wait $listener
        stop
    done
}

case $way in flood | paced) $way ;; *) usage ;; esac
