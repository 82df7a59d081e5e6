//! Nanoseconds to dissect a packet, compared with etherparse on the same packets; to make its flow key; to rewrite
//! it; to read it from a capture file in memory.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use etherparse::{LaxSlicedPacket, PacketBuilder};
use tidegate_capture::dissect::{Dissection, network};
use tidegate_capture::{CaptureReader, CaptureWriter, LinkType, rewrite};
use tidegate_core::flow::{FlowBy, FlowHash};
use tidegate_core::{Dscp, Instant};

fn packets(v6: bool) -> Vec<Vec<u8>> {
    (0..1024_u16)
        .map(|n| {
            let [a, b] = n.to_be_bytes();
            let mut address = [0x20; 16];
            address[14..].copy_from_slice(&[a, b]);
            let ip = match v6 {
                true => PacketBuilder::ipv6(address, [0x30; 16], 64),
                false => PacketBuilder::ipv4([10, 0, a, b], [192, 0, 2, b], 64),
            };
            let mut bytes = vec![];
            let payload = [0; 64];
            match n % 3 {
                0 => ip.udp(n, 53).write(&mut bytes, &payload),
                _ => ip.tcp(n, 443, 1, 1000).ack(1).write(&mut bytes, &payload),
            }
            .expect("the packet is small");
            bytes.truncate(96);
            bytes
        })
        .collect()
}

fn dissect(criterion: &mut Criterion) {
    for (name, v6) in [("IPv4", false), ("IPv6", true)] {
        let mut packets = packets(v6);
        let mut group = criterion.benchmark_group(format!("packet bytes/{name}"));
        group.throughput(Throughput::Elements(packets.len() as u64));
        group.bench_function("dissect", |bencher| {
            bencher.iter(|| packets.iter().filter(|bytes| network(black_box(bytes), 104).is_ok()).count());
        });
        group.bench_function("etherparse", |bencher| {
            bencher.iter(|| packets.iter().filter(|bytes| LaxSlicedPacket::from_ip(black_box(bytes)).is_ok()).count());
        });
        let seen: Vec<Dissection> = packets.iter().filter_map(|bytes| network(bytes, 104).ok()).collect();
        let hash = FlowHash::new([1, 2], FlowBy::FiveTuple);
        group.bench_function("flow key", |bencher| {
            bencher.iter(|| seen.iter().fold(0, |sum, seen| sum ^ hash.key(black_box(&seen.fields)).flow));
        });
        group.bench_function("set DSCP", |bencher| {
            bencher.iter(|| packets.iter_mut().all(|bytes| rewrite::set_dscp(black_box(bytes), Dscp::EF)));
        });
    }
}

fn read(criterion: &mut Criterion) {
    let packets = packets(false);
    let mut file = CaptureWriter::new(Vec::new()).expect("a vector takes everything");
    let interface = file.add_interface("bench", LinkType::Raw).expect("a vector takes everything");
    let count = 100_000;
    for (n, bytes) in (0..count).zip(packets.iter().cycle()) {
        let time = Instant::from_nanos(n * 1_000);
        file.write(interface, time, bytes, 104, None).expect("a vector takes everything");
    }
    let bytes = file.finish().expect("a vector takes everything");
    let mut group = criterion.benchmark_group("capture file");
    group.sample_size(20).throughput(Throughput::Elements(count));
    group.bench_function("pcapng, read and dissected", |bencher| {
        bencher.iter(|| {
            let mut reader = CaptureReader::new(black_box(&bytes[..])).expect("it was just written");
            let mut total = 0;
            while let Some(Ok(packet)) = reader.next_packet(&mut |_| ()) {
                total += packet.dissect().payload();
            }
            total
        });
    });
}

criterion_group!(benches, dissect, read);
criterion_main!(benches);
