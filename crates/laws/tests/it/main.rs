//! Tests of the disciplines by their laws, by oracles, and by the papers' figures.

mod any_packet;
mod autorate;
mod cbq;
mod cbq_oracle;
mod ceilings;
mod dualpi2;
mod fair;
mod fbq;
mod fbq_hosts;
mod fifo;
mod hfsc;
mod htb;
mod meters;
mod mice;
mod nested;
mod pool;
mod ras;
mod red;
mod rio;
mod wfq;
