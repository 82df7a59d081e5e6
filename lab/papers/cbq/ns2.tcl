# usage: ns cbq.tcl PACKET   rates of a class of 20 % (no borrowing) and of one of 79 % that borrows, on 10 Mbit/s
set size [lindex $argv 0]
set ns [new Simulator]
set n0 [$ns node]; set n1 [$ns node]
$ns simplex-link $n0 $n1 10Mb 1ms CBQ/WRR
$ns simplex-link $n1 $n0 10Mb 1ms DropTail
set link [$ns link $n0 $n1]
set top [new CBQClass]; $top setparams none 0 0.99 auto 8 2 0
set a [new CBQClass]; $a setparams $top false 0.20 auto 1 1 0
set b [new CBQClass]; $b setparams $top true 0.79 auto 1 1 0
foreach c "$a $b" { set q [new Queue/DropTail]; $q set limit_ 50; $c install-queue $q }
$link insert $top; $link insert $a; $link insert $b
$link bind $a 1; $link bind $b 2
[$link queue] algorithm "formal"
foreach {f rate s start} "1 4Mb $size 1.0 2 12Mb 1000 0.5" {
  set u [new Agent/UDP]; $u set fid_ $f; $u set packetSize_ $s; $ns attach-agent $n0 $u
  set sink [new Agent/LossMonitor]; $ns attach-agent $n1 $sink; $ns connect $u $sink
  set t [new Application/Traffic/CBR]; $t set rate_ $rate; $t set packetSize_ $s; $t attach-agent $u
  $ns at $start "$t start"
  set m($f) $sink
}
proc note {what} { global m ns; puts "$what a [$m(1) set bytes_] b [$m(2) set bytes_]" }
foreach at "1.1 1.2 1.5 10 60" { $ns at $at "note $at" }
$ns at 60.1 "exit 0"
$ns run
