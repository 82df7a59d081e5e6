#!/bin/bash
# gateway.sh nothing|htb|tidegate [PROGRAM [OPTION]...]: a gateway between two hosts, in namespaces whose traffic stays there. 100 and 500
# Mbit/s each way are shaped, of which 5 % more are offered in packets of 1,400 bytes, beside a call of 50 packets a second. Needs root,
# python3 and the controller cpuacct, or cgroup 2. OPTIONs go to `tidegate run`. Prints lines `NAME FIGURE`, for each RATE:
#   system-RATE PERCENT   processor time of all: senders, the kernel's work for their packets, and the shaper with its guardians
#   thread-RATE PERCENT   the part of the shaper's processes
#   call-RATE MICROSECONDS  the 99th percentile of the way of the call's packets, from the program that sends to the kernel's time of arrival
# Shaping costs the difference from `nothing`.
set -euo pipefail
usage() { echo "usage: gateway.sh nothing|htb|tidegate [PROGRAM [OPTION]...]" >&2; exit 2; }
[ $# -ge 1 ] || usage
kind=$1 program=${2:-}
shift $(($# < 2 ? $# : 2))
seconds=${SECONDS_OF_EACH:-4} rates=${RATES:-100 500}
lan=gate$$l gate=gate$$g wan=gate$$w scratch=$(mktemp -d)
groups=()
shaper=""
end() {
    [ -z "$shaper" ] || { kill -INT "$shaper" 2>/dev/null || true; wait "$shaper" 2>/dev/null || true; }
    for name in $lan $gate $wan; do ip netns del $name 2>/dev/null || true; done
    for group in "${groups[@]}"; do
        while read -r process; do echo "$process" >"$(dirname "$group")/cgroup.procs" || true; done <"$group/cgroup.procs"
        rmdir "$group" || true
    done
    rm -rf "$scratch"
}
trap end EXIT
# The processor time of a group of processes, with the kernel's work that is done in their time.
root=/sys/fs/cgroup/cpuacct
[ -d $root ] || root=/sys/fs/cgroup
nanoseconds() { [ -f "$1/cpuacct.usage" ] && cat "$1/cpuacct.usage" || awk '/usage_usec/ { print $2 * 1000 }' "$1/cpu.stat"; }
for group in $root/gate$$-all $root/gate$$-shaper; do mkdir "$group"; groups+=("$group"); done
enter() { exec bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$@"; }

for name in $lan $gate $wan; do ip netns add $name; ip -n $name link set lo up; done
join() { # join INSIDE NAMESPACE NETWORK
    ip link add "$1" netns $gate type veth peer name eth0 netns "$2"
    ip -n $gate addr add "$3.1/24" dev "$1"; ip -n "$2" addr add "$3.2/24" dev eth0
    ip -n $gate link set "$1" up; ip -n "$2" link set eth0 up
    ip -n "$2" route add default via "$3.1"
}
join gl $lan 10.72.1
join gw $wan 10.72.2
ip netns exec $gate sysctl -qw net.ipv4.ip_forward=1

cat >"$scratch/send.py" <<'PYTHON'
import socket, sys, time
rate, seconds, to = float(sys.argv[1]) * 1.05e6, float(sys.argv[2]), sys.argv[3]
# A socket that nobody reads from: its kernel drops what it has no room for, at little cost.
sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1); sink.bind(("", 9000))
bulk = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); bulk.connect((to, 9000))
payload, interval, sent, begin = bytes(1372), 1400 * 8 / rate, 0, time.monotonic()
while (passed := time.monotonic() - begin) < seconds:
    while sent * interval < passed:
        try: bulk.send(payload)
        except OSError: pass
        sent += 1
    time.sleep(0.0005)
PYTHON
cat >"$scratch/call.py" <<'PYTHON'
import socket, struct, sys, time
if sys.argv[1] == "speak":
    speaker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); speaker.connect((sys.argv[2], 5004))
    end = time.monotonic() + float(sys.argv[3])
    while time.monotonic() < end:
        speaker.send(struct.pack("Q", time.time_ns()) + bytes(164))
        time.sleep(0.02)
else:
    listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listener.setsockopt(socket.SOL_SOCKET, 35, 1)  # SO_TIMESTAMPNS
    listener.bind(("", 5004)); listener.settimeout(2)
    took = []
    try:
        while True:
            data, ancillary, _, _ = listener.recvmsg(200, 64)
            seconds, nanoseconds = struct.unpack("qq", ancillary[0][2])
            took.append(seconds * 10**9 + nanoseconds - struct.unpack("Q", data[:8])[0])
    except TimeoutError: pass
    took = sorted(took[len(took) // 5 :])
    if len(took) < 50: sys.exit("too few packets of the call arrived")
    print(f"call-{sys.argv[2]} {took[len(took) * 99 // 100] / 1000:.0f}", flush=True)
PYTHON

class() { tc -n $gate class add dev "$1" parent 1: classid "$2" htb rate "$3" ceil "$4" burst 20000 cburst 20000 prio "$5"; }
shape() {
    case $kind in
    nothing) ;;
    htb)
        for device in gl gw; do
            tc -n $gate qdisc del dev $device root 2>/dev/null || true
            tc -n $gate qdisc add dev $device root handle 1: htb default 10
            class $device 1:10 "$(($1 - 1))mbit" "$1mbit" 1
            class $device 1:20 1mbit "$1mbit" 0
            tc -n $gate filter add dev $device parent 1: protocol ip u32 match ip dport 5004 0xffff flowid 1:20
        done
        ;;
    tidegate)
        for way in up down; do
            printf '[[%s.class]]\nname = "bulk"\nrate = "%smbit"\ndefault = true\n' $way $(($1 - 1))
            printf '[[%s.class]]\nname = "calls"\nrate = "1mbit"\npriority = 0\n' $way
            printf '[[%s.rule]]\nclass = "calls"\ndestination-port = 5004\n' $way
        done | sed '1i version = 1' >"$scratch/shaper.toml"
        ip netns exec $gate "$program" run "$scratch/shaper.toml" --interface gw --control "$scratch/control" "${@:2}" >"$scratch/log" 2>&1 &
        shaper=$!
        for _ in $(seq 100); do
            ip netns exec $gate "$program" status --control "$scratch/control" >/dev/null 2>&1 && break
            kill -0 $shaper 2>/dev/null || { cat "$scratch/log" >&2; exit 1; }
            sleep 0.05
        done
        # Children of the shaper are its guardians.
        for process in $shaper $(pgrep -P $shaper); do echo "$process" >"${groups[1]}/cgroup.procs"; done
        ;;
    *) usage ;;
    esac
}

for rate in $rates; do
    shape "$rate" "$@"
    ip netns exec $wan python3 "$scratch/call.py" listen "$rate" &
    listener=$!
    (enter "${groups[0]}" ip netns exec $lan python3 "$scratch/send.py" "$rate" $((seconds + 2)) 10.72.2.2) & up=$!
    (enter "${groups[0]}" ip netns exec $wan python3 "$scratch/send.py" "$rate" $((seconds + 2)) 10.72.1.2) & down=$!
    sleep 0.5
    ip netns exec $lan python3 "$scratch/call.py" speak 10.72.2.2 $((seconds + 1)) & call=$!
    sleep 0.5
    all=$(nanoseconds "${groups[0]}") own=$(nanoseconds "${groups[1]}") began=$(date +%s%N)
    sleep "$seconds"
    passed=$(($(date +%s%N) - began)) all=$(($(nanoseconds "${groups[0]}") - all)) own=$(($(nanoseconds "${groups[1]}") - own))
    awk -v all=$all -v own=$own -v passed=$passed -v rate="$rate" \
        'BEGIN { printf "system-%s %.1f\nthread-%s %.1f\n", rate, (all + own) * 100 / passed, rate, own * 100 / passed }'
    wait $up $down $call $listener
    [ -z "$shaper" ] || { kill -INT $shaper; wait $shaper || true; shaper=""; }
done
