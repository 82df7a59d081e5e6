//! Writes a rate into any bytes: nothing panics, only the signal and the UDP checksum change, the rate never rises, and a
//! checksum stays as right or as wrong as it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_capture::dissect::network;
use tidegate_capture::scone::{Outcome, Signal, find, lower, read};

/// The sum of RFC 1071 over the words of the transport part.
fn sum(bytes: &[u8]) -> u32 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u32::from(*byte));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // Both forms of zero are one value.
    sum % 0xffff
}

fuzz_target!(|input: &[u8]| {
    let Some((&number, bytes)) = input.split_first() else { return };
    let _ = read(bytes);
    let Some(signal) = Signal::new(number & 0x7f) else { return };
    let mut packet = bytes.to_vec();
    let before = find(bytes).map(|found| found.signal);
    match lower(&mut packet, signal) {
        Outcome::NoScone => assert!(before.is_none() && packet == bytes),
        Outcome::Kept(kept) => {
            assert_eq!(before, Some(Some(kept)));
            assert!(kept <= signal && packet == bytes);
        }
        Outcome::Lowered(was) => {
            assert_eq!(before, Some(was));
            assert!(was.is_none_or(|was| was > signal));
            assert_eq!(find(&packet).and_then(|found| found.signal), Some(signal));
            let headers = network(bytes, bytes.len()).unwrap();
            let at = headers.payload_offset();
            let changed: Vec<usize> = (0..bytes.len()).filter(|&i| packet[i] != bytes[i]).collect();
            assert!(changed.iter().all(|i| [at - 2, at - 1, at, at + 1].contains(i)));
            assert_eq!((packet[at] ^ bytes[at]) & 0xc0 | (packet[at + 1] ^ bytes[at + 1]) & 0x7f, 0);
            if bytes[at - 2..at] == [0, 0] {
                assert_eq!(packet[at - 2..at], [0, 0]);
            } else {
                assert_eq!(sum(&packet[at - 8..]), sum(&bytes[at - 8..]));
            }
        }
    }
});
