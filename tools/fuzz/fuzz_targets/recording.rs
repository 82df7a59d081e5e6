//! Reads any bytes as a recording: it does not panic, it ends, times and numbers are within bounds, and a recording
//! that can be read can be replayed. Decisions of a rate that follows the line are made again as far as they are recorded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_replay::exact;
use tidegate_replay::recording::{FORMAT, MAGIC, Reader, Record};
use tidegate_replay::source::{Choice, Source};

/// The input consists of the bodies of chunks, each after two bytes of length, so that the checksums match. The top bit of the length is set
/// for calls of a controller.
fn with_checksums(input: &[u8]) -> Vec<u8> {
    let head = format!(
        "{{\"format\":{FORMAT},\"tidegate\":\"\",\"recording\":\"\",\"part\":0,\"of\":\"\",\"instant_ns\":0,\
         \"wall_clock_ns\":0,\"payload\":\"all\",\"reasons\":[\"early\",\"queue_limit\"]}}"
    );
    let mut file = MAGIC.to_vec();
    file.extend(tidegate_replay::recording::raw_chunk(b'H', head.as_bytes()));
    let mut rest = input;
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = u16::from_le_bytes(*length);
        let kind = if length >> 15 == 0 { b'R' } else { b'L' };
        let (body, behind) = behind.split_at(usize::from(length & 0x7fff).min(behind.len()));
        file.extend(tidegate_replay::recording::raw_chunk(kind, body));
        rest = behind;
    }
    file
}

fn read(file: &[u8]) {
    let Ok(mut reader) = Reader::new(file) else { return };
    let mut records = 0_u64;
    while let Some(record) = reader.next_record() {
        records += 1;
        assert!(records <= file.len() as u64 + 2, "more records than bytes");
        match record {
            Ok(Record::Arrives { .. }) => assert!(reader.bytes().len() <= file.len().max(96)),
            Ok(_) => {}
            Err(_) => assert!(reader.next_record().is_none()),
        }
    }
    let _ = exact::replay(&mut Reader::new(file).expect("it could be read before"));
    let mut source = Source::recording(Reader::new(file).expect("it could be read before"), Choice::default());
    let mut last = 0;
    while let Some(Ok(arrival)) = source.next_arrival(&mut |_| ()) {
        assert!(arrival.time.as_nanos() >= last);
        last = arrival.time.as_nanos();
    }
}

fuzz_target!(|input: &[u8]| {
    read(input);
    read(&with_checksums(input));
});
