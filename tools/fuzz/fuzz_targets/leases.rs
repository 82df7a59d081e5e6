//! No file of leases panics its readers, and of each name in it at most what a host may be called is left.
#![no_main]

use tidegate_live::leases::{dhcpd, dnsmasq, hosts, kea, valid};

libfuzzer_sys::fuzz_target!(|text: &str| {
    for read in [hosts, dnsmasq, kea, dhcpd] {
        for (_, name) in read(text) {
            let Some(name) = valid(&name) else { continue };
            assert!(name.len() <= 253 && name.bytes().all(|byte| byte.is_ascii_graphic()), "{name:?}");
        }
    }
});
