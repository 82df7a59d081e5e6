# FLOWS TCP flows of SACK over one bottleneck of 100 kbit/s for each and a queue of 50 ms, for ns-2: the workload of
# `cargo bench -p tidegate-sim --bench scale`. Usage: ns flows.tcl FLOWS SECONDS
# Prints the processor time of the run in ns, without its set-up, which takes ten times as long.

# The processor time so far, user and system, which Linux counts in ticks of 10 ms.
proc cpu {} {
  set stat [open /proc/[pid]/stat]
  set fields [lindex [split [read $stat] )] 1]
  close $stat
  return [expr ([lindex $fields 11] + [lindex $fields 12]) * 10000000]
}
set flows [lindex $argv 0]
set seconds [lindex $argv 1]
set rate [expr $flows * 100000]
remove-all-packet-headers
add-packet-header Flags IP TCP
set ns [new Simulator]
ns-random 1
Agent/TCP set window_ 1000
Agent/TCP set packetSize_ 1448
Agent/TCP set minrto_ 0.2
Agent/TCPSink set packetSize_ 40
set near [$ns node]
set far [$ns node]
$ns duplex-link $near $far $rate 10ms DropTail
$ns queue-limit $near $far [expr int($rate / 8 / 20 / 1500)]
$ns queue-limit $far $near 1000000
set from [$ns node]
set to [$ns node]
$ns duplex-link $from $near [expr $rate * 4] 1ms DropTail
$ns duplex-link $far $to [expr $rate * 4] 1ms DropTail
foreach {a b} [list $from $near $near $from $far $to $to $far] { $ns queue-limit $a $b 1000000 }
for {set i 0} {$i < $flows} {incr i} {
  set tcp [new Agent/TCP/Sack1]
  set sink [new Agent/TCPSink/Sack1]
  $ns attach-agent $from $tcp
  $ns attach-agent $to $sink
  $ns connect $tcp $sink
  set ftp [new Application/FTP]
  $ftp attach-agent $tcp
  $ns at [expr rand()] "$ftp start"
}
$ns at 0 { set began [cpu] }
$ns at $seconds { puts "cpu [expr [cpu] - $began]"; exit 0 }
$ns run
