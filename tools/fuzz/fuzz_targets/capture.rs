//! Reads any bytes as a capture file: it does not panic, it ends, times do not run back, and warnings name a packet.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_capture::CaptureReader;

fuzz_target!(|input: &[u8]| {
    let Ok(mut reader) = CaptureReader::new(input) else { return };
    let (mut last, mut number) = (0, 0);
    let mut warned = 0;
    while let Some(next) = reader.next_packet(&mut |warning| warned = warning.packet) {
        assert!(warned <= number + 1);
        let Ok(packet) = next else { continue };
        assert_eq!(packet.number, number + 1);
        assert!(packet.time.as_nanos() >= last);
        assert!(packet.length as usize >= packet.bytes.len());
        (last, number) = (packet.time.as_nanos(), packet.number);
        assert!(packet.dissect().total <= packet.length);
    }
});
