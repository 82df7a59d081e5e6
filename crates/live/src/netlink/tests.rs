use super::*;
use proptest::prelude::*;

#[test]
fn a_message_has_the_layout_of_rfc_3549() {
    let mut builder = Builder::new();
    builder.message(0x10, REQUEST, 7, |m| {
        m.raw(&[1, 2, 3, 4]).be16(3, 0x0102).nest(4, |n| {
            n.string(1, "lo");
        });
    });
    // Header 16, fixed header 4, attribute 4 + 2 padded to 8, nest 4 + (4 + 3 padded to 8) = 12: 40 bytes.
    let bytes = builder.bytes();
    assert_eq!(bytes.len(), 40);
    assert_eq!(u32::from_ne_bytes(*bytes.first_chunk().unwrap()), 40);
    let message = Messages::new(bytes).next().unwrap();
    assert_eq!((message.kind, message.flags, message.sequence), (0x10, REQUEST, 7));
    let attributes: Vec<_> = message.attributes(4).collect();
    assert_eq!(attributes[0].be16(), Some(0x0102));
    assert_eq!(attributes[1].kind, 4);
    assert_eq!(attributes[1].nested().find(1).unwrap().string().unwrap(), "lo");
    assert_eq!(attributes.len(), 2);
}

#[test]
fn an_attribute_that_does_not_fit_spoils_the_batch_and_nothing_else() {
    let mut builder = Builder::new();
    builder.message(1, 0, 1, |m| {
        m.attr(1, &[0; 65_531]);
    });
    assert!(!builder.oversized());
    builder.message(1, 0, 2, |m| {
        m.attr(1, &[0; 65_532]);
    });
    assert!(builder.oversized());
    builder.clear();
    assert!(!builder.oversized() && builder.bytes().is_empty());
}

#[test]
fn the_kernels_message_is_found_behind_a_capped_and_behind_a_whole_request() {
    for (flags, echoed) in [(CAPPED | ACK_TLVS, 0usize), (ACK_TLVS, 24)] {
        let mut builder = Builder::new();
        builder.message(KIND_ERROR, flags, 1, |m| {
            m.raw(&(-libc::EINVAL).to_ne_bytes());
            let mut header = [0u8; HEADER];
            header[..4].copy_from_slice(&((HEADER + echoed) as u32).to_ne_bytes());
            m.raw(&header);
            m.raw(&vec![0xff; echoed]);
            m.string(1, "no such thing");
        });
        let message = Messages::new(builder.bytes()).next().unwrap();
        assert_eq!(message.verdict(), Some((libc::EINVAL, Some("no such thing".into()))));
    }
}

#[test]
fn a_refusal_contains_the_operation_the_message_and_the_remedy() {
    let error = Error::Refused { operation: "make a table".into(), errno: libc::EPERM, text: Some("really".into()) };
    assert_eq!(
        error.to_string(),
        "make a table: Operation not permitted (errno 1): really; \
         this needs CAP_NET_ADMIN in the network namespace (run as root)"
    );
}

proptest! {
    #[test]
    fn random_bytes_are_walked_to_an_end_within_their_bounds(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut seen = 0;
        for message in Messages::new(&bytes) {
            seen += HEADER + message.body.len();
            let _ = message.verdict();
            let inside: usize = message.attributes(4).map(|a| 4 + a.payload.len()).sum();
            prop_assert!(inside <= message.body.len());
        }
        prop_assert!(seen <= bytes.len());
        for attribute in Attributes::new(&bytes) {
            let _ = (attribute.u8(), attribute.u16(), attribute.u32(), attribute.be64(), attribute.string());
            for inner in attribute.nested() {
                let _ = inner.string();
            }
        }
    }

    #[test]
    fn a_damaged_message_never_panics(cut in 0usize..64, at in 0usize..64, with in any::<u8>()) {
        let mut builder = Builder::new();
        builder.message(9, REQUEST, 1, |m| {
            m.raw(&[0; 4]).u32(1, 5).nest(2, |n| { n.string(1, "veth"); n.u16(2, 9); });
        });
        let mut bytes = builder.bytes().to_vec();
        bytes.truncate(bytes.len() - cut.min(bytes.len()));
        if let Some(byte) = bytes.get_mut(at) { *byte = with; }
        for message in Messages::new(&bytes) {
            for attribute in message.attributes(4) {
                let _: Vec<_> = attribute.nested().collect();
            }
        }
    }

    #[test]
    fn what_is_built_is_what_is_read(values in prop::collection::vec((0u16..0x3fff, prop::collection::vec(any::<u8>(), 0..90)), 0..12)) {
        let mut builder = Builder::new();
        builder.message(9, 0, 3, |m| {
            m.raw(&[0; 4]);
            for (kind, payload) in &values { m.attr(*kind, payload); }
        });
        builder.message(10, 0, 4, |_| ());
        let messages: Vec<_> = Messages::new(builder.bytes()).collect();
        prop_assert_eq!(messages.len(), 2);
        let read: Vec<_> = messages[0].attributes(4).map(|a| (a.kind, a.payload.to_vec())).collect();
        prop_assert_eq!(read, values);
    }
}
