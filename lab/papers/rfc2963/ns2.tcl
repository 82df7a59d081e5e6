# The network of RFC 2963, appendix A.1, in ns-2.35, with all ten customer routers unshaped: ns-2 has trTCM and RIO, and no
# rate adaptive shaper. Open parameters are those of README.md. Prints the goodput of C1 to C10 in Mbit/s.
#   ns lab/papers/rfc2963/ns2.tcl CBS_KB SEED
lassign $argv cbs seed
remove-all-packet-headers
add-packet-header Flags IP TCP
set ns [new Simulator]
ns-random $seed
set start [new RandomVariable/Uniform]
$start set min_ 0.0
$start set max_ 1.0
Agent/TCP set window_ 44
Agent/TCP set packetSize_ 1460
Agent/TCP set tcpTick_ 0.001
Agent/TCP set minrto_ 1.0
Agent/TCP set windowInit_ 2
Agent/TCP set singledup_ 0
Agent/TCPSink set packetSize_ 40
Agent/TCPSink/Sack1/DelAck set interval_ 200ms
proc colours {queue limit} {
    $queue meanPktSize 1500
    $queue set limit_ $limit
    $queue set numQueues_ 1
    $queue setNumPrec 3
    $queue setMREDMode RIO-C
    foreach code {10 11 12} { $queue addPHBEntry $code 0 [expr $code - 10] }
}
set er1 [$ns node]
set er2 [$ns node]
$ns simplex-link $er1 $er2 70Mb 10ms dsRED/core
$ns simplex-link $er2 $er1 70Mb 10ms DropTail
$ns queue-limit $er2 $er1 2000
set core [[$ns link $er1 $er2] queue]
colours $core 1000
$core configQ 0 0 400 800 0.02
$core configQ 0 1 200 400 0.05
$core configQ 0 2 100 200 0.10
for {set i 1} {$i <= 10} {incr i} {
    set c [$ns node]
    set d [$ns node]
    $ns simplex-link $c $er1 34Mb 2.5ms dsRED/edge
    $ns simplex-link $er1 $c 34Mb 2.5ms DropTail
    $ns queue-limit $er1 $c 2000
    $ns duplex-link $er2 $d 34Mb 2.5ms DropTail
    $ns queue-limit $er2 $d 2000
    set cir [expr 2e6 * (($i - 1) % 5 + 1)]
    set edge [[$ns link $c $er1] queue]
    colours $edge 4000
    $edge addPolicyEntry -1 -1 trTCM 10 $cir [expr $cbs * 1000] [expr 2 * $cir] [expr 2 * $cbs * 1000]
    $edge addPolicerEntry trTCM 10 11 12
    # Nothing is dropped before the bottleneck.
    foreach colour {0 1 2} { $edge configQ 0 $colour 3000 3500 0.0001 }
    for {set w 0} {$w < 10} {incr w} {
        set sender [$ns node]
        set receiver [$ns node]
        $ns duplex-link $sender $c 10Mb 1ms DropTail
        $ns duplex-link $d $receiver 10Mb 1ms DropTail
        $ns queue-limit $sender $c 1000
        $ns queue-limit $d $receiver 1000
        set tcp($i,$w) [new Agent/TCP/Sack1]
        set sink [new Agent/TCPSink/Sack1/DelAck]
        $ns attach-agent $sender $tcp($i,$w)
        $ns attach-agent $receiver $sink
        $ns connect $tcp($i,$w) $sink
        set ftp [new Application/FTP]
        $ftp attach-agent $tcp($i,$w)
        $ns at [$start value] "$ftp start"
    }
}
proc acknowledged {i} {
    global tcp
    set sum 0
    for {set w 0} {$w < 10} {incr w} { incr sum [expr int([$tcp($i,$w) set ack_])] }
    return $sum
}
proc begin {} {
    global before
    for {set i 1} {$i <= 10} {incr i} { set before($i) [acknowledged $i] }
}
proc end {} {
    global before
    set line {}
    for {set i 1} {$i <= 10} {incr i} {
        lappend line [format %.3f [expr ([acknowledged $i] - $before($i)) * 1460 * 8 / 100.0 / 1e6]]
    }
    puts $line
    exit 0
}
$ns at 2.0 begin
$ns at 102.0 end
$ns run
