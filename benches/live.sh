#!/bin/bash
# live.sh nothing | htb | tidegate PROGRAM: packets and TCP through two classes of 1 and 30 Gbit/s on a veth pair between
# two namespaces. 64-byte UDP as fast as one thread sends it, and one TCP stream. Prints `udp PACKETS_A_SECOND`, `tcp BIT_A_SECOND`, and of
# tidegate `cpu NANOSECONDS_A_PACKET` of UDP, `start MILLISECONDS`, `status MILLISECONDS`. Needs root, iperf3 and python3. Traffic stays
# in the namespaces.
set -euo pipefail
for tool in ip tc iperf3 python3; do command -v $tool >/dev/null || { echo "$tool is not installed" >&2; exit 1; }; done
left=bench$$a right=bench$$b scratch=$(mktemp -d)
shaper=""
end() {
    [ -z "$shaper" ] || { kill -INT "$shaper" 2>/dev/null || true; wait "$shaper" 2>/dev/null || true; }
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
case $1 in
    nothing) ;;
    htb)
        tc -n $left qdisc add dev pa root handle 1: htb default 10
        tc -n $left class add dev pa parent 1: classid 1:1 htb rate 31gbit burst 4m cburst 4m quantum 60000
        tc -n $left class add dev pa parent 1:1 classid 1:10 htb rate 30gbit ceil 31gbit burst 4m cburst 4m quantum 60000
        tc -n $left class add dev pa parent 1:1 classid 1:20 htb rate 1gbit ceil 31gbit burst 1m cburst 1m quantum 60000
        ;;
    tidegate)
        cat >"$scratch/shaper.toml" <<TOML
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
        begin=$(date +%s%N)
        ip netns exec $left "$2" run "$scratch/shaper.toml" --interface pa --control "$scratch/control" >"$scratch/log" 2>&1 &
        shaper=$!
        for _ in $(seq 500); do
            ip netns exec $left "$2" status --control "$scratch/control" >/dev/null 2>&1 && break
            kill -0 $shaper 2>/dev/null || { cat "$scratch/log" >&2; exit 1; }
        done
        echo "start $(milliseconds "$begin")"
        begin=$(date +%s%N)
        for _ in 1 2 3 4 5; do ip netns exec $left "$2" status --control "$scratch/control" >/dev/null; done
        echo "status $(($(milliseconds "$begin") / 5))"
        ;;
    *) echo "usage: live.sh nothing | htb | tidegate PROGRAM" >&2; exit 2 ;;
esac
received() { ip netns exec $right cat /sys/class/net/pb/statistics/rx_packets; }
ticks() { [ -z "$shaper" ] && echo 0 || awk '{ print $14 + $15 }' "/proc/$shaper/stat"; }
ip netns exec $right iperf3 -s -1 -p 5302 >/dev/null 2>&1 &
ip netns exec $right python3 -c '
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 25)
s.bind(("10.71.1.2", 9000))
time.sleep(3)' &
sleep 0.3
before=$(received) used=$(ticks) begin=$(date +%s%N)
ip netns exec $left iperf3 -u -b 0 -l 22 -t 2 -c 10.71.1.2 -p 5302 >/dev/null 2>&1 || true
count=$(($(received) - before))
echo "udp $((count * 1000 / $(milliseconds "$begin")))"
[ -z "$shaper" ] || echo "cpu $((($(ticks) - used) * 1000000000 / $(getconf CLK_TCK) / count))"
ip netns exec $right iperf3 -s -1 -p 5301 >/dev/null 2>&1 &
sleep 0.3
ip netns exec $left iperf3 -c 10.71.1.2 -p 5301 -t 2 -J |
    python3 -c 'import json, sys; print("tcp", round(json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"]))'
