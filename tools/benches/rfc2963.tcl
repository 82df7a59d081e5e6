# The scenario of RFC 2963, appendix A, without shapers, for ns-2; ten routers with trTCM. Usage: ns rfc2963.tcl CBS_KB
set cbsKB [lindex $argv 0]; if {$cbsKB==""} {set cbsKB 3}
set sim_t 102.0
remove-all-packet-headers
add-packet-header Flags IP TCP
set ns [new Simulator]
ns-random 1
set er1 [$ns node]; set er2 [$ns node]
$ns simplex-link $er1 $er2 70Mb 2.5ms dsRED/core
$ns simplex-link $er2 $er1 70Mb 2.5ms DropTail
$ns queue-limit $er2 $er1 2000
Agent/TCP set window_ 45
Agent/TCP set packetSize_ 1460
Agent/TCP set tcpTick_ 0.01
Agent/TCP set minrto_ 0.2
Agent/TCPSink set packetSize_ 40
for {set i 1} {$i<=10} {incr i} {
  set c($i) [$ns node]; set d($i) [$ns node]
  $ns simplex-link $c($i) $er1 34Mb 2.5ms dsRED/edge
  $ns simplex-link $er1 $c($i) 34Mb 2.5ms DropTail
  $ns queue-limit $er1 $c($i) 2000
  $ns duplex-link $er2 $d($i) 34Mb 2.5ms DropTail
  $ns queue-limit $er2 $d($i) 2000
  set cir [expr 2e6*((($i-1)%5)+1)]
  set q [[$ns link $c($i) $er1] queue]
  $q meanPktSize 1500
  $q set limit_ 4000
  $q set numQueues_ 1
  $q setNumPrec 3
  for {set w 0} {$w<10} {incr w} {
    set s [$ns node]; set r [$ns node]
    $ns duplex-link $s $c($i) 10Mb 1ms DropTail
    $ns duplex-link $d($i) $r 10Mb 1ms DropTail
    $ns queue-limit $s $c($i) 1000
    $ns queue-limit $d($i) $r 1000
    set tcp [new Agent/TCP/Sack1]; set sink [new Agent/TCPSink/Sack1]
    $ns attach-agent $s $tcp; $ns attach-agent $r $sink
    $ns connect $tcp $sink
    set ftp [new Application/FTP]; $ftp attach-agent $tcp
    $ns at [expr 0.001*$i+0.013*$w] "$ftp start"
    set tc($i,$w) $tcp
    set sk($i,$w) $sink
  }
  $q addPolicyEntry -1 -1 trTCM 10 $cir [expr $cbsKB*1000] [expr 2*$cir] [expr 2*$cbsKB*1000]
  $q addPolicerEntry trTCM 10 11 12
  $q addPHBEntry 10 0 0
  $q addPHBEntry 11 0 1
  $q addPHBEntry 12 0 2
  $q configQ 0 0 3000 3500 0.0001
  $q configQ 0 1 3000 3500 0.0001
  $q configQ 0 2 3000 3500 0.0001
}
set qb [[$ns link $er1 $er2] queue]
$qb meanPktSize 1500
$qb set limit_ 4000
$qb set numQueues_ 1
$qb setNumPrec 3
$qb addPHBEntry 10 0 0
$qb addPHBEntry 11 0 1
$qb addPHBEntry 12 0 2
$qb configQ 0 0 400 800 0.02
$qb configQ 0 1 200 400 0.05
$qb configQ 0 2 100 200 0.10
proc snap {} { global tc base; for {set i 1} {$i<=10} {incr i} { set base($i) 0; for {set w 0} {$w<10} {incr w} { set base($i) [expr $base($i)+[$tc($i,$w) set ack_]] } } }
proc fin {} { global tc base; for {set i 1} {$i<=10} {incr i} { set b 0; for {set w 0} {$w<10} {incr w} { set b [expr $b+[$tc($i,$w) set ack_]] }; puts "C$i goodput [format %.2f [expr ($b-$base($i))*1460*8/100.0/1e6]] Mbps" }; exit 0 }
$ns at 2.0 snap
$ns at 102.0 fin
$ns run
