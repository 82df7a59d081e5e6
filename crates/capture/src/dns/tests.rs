use super::*;

/// A message with these flags and counts of questions and answers.
fn header(flags: u16, questions: u16, answers: u16) -> Vec<u8> {
    [7, flags, questions, answers, 0, 0].iter().flat_map(|half| half.to_be_bytes()).collect()
}

fn labels(name: &str) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        name.split('.').flat_map(|label| [&[label.len() as u8], label.as_bytes()].concat()).collect();
    bytes.push(0);
    bytes
}

/// The answer to a question for `WWW.Example.com` with `answers` records of these bytes.
fn answer(answers: u16, records: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = header(0x8180, 1, answers);
    bytes.extend(labels("WWW.Example.com"));
    bytes.extend([0, 1, 0, 1]);
    bytes.extend(records.concat());
    bytes
}

/// A record of the owner with these bytes.
fn of(owner: &[u8], kind: u16, seconds: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = owner.to_vec();
    bytes.extend(kind.to_be_bytes());
    bytes.extend([0, 1]);
    bytes.extend(seconds.to_be_bytes());
    bytes.extend((data.len() as u16).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// A pointer to the name of the question.
const ASKED: [u8; 2] = [0xc0, HEADER as u8];

fn addresses_in(bytes: &[u8]) -> Vec<(String, u32)> {
    let Some(Message::Answer(question, addresses)) = read(bytes) else { panic!("no answer: {bytes:?}") };
    assert_eq!((question.id, question.name.as_str()), (7, "www.example.com"));
    addresses.into_iter().map(|(address, seconds)| (address.to_string(), seconds)).collect()
}

#[test]
fn addresses_belong_to_the_name_that_was_asked_for() {
    let v6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    let records = [of(&ASKED, A, 300, &[192, 0, 2, 7]), of(&ASKED, AAAA, 1 << 31, &v6)];
    let wanted = vec![("192.0.2.7".to_owned(), 300), ("2001:db8::7".to_owned(), 0)];
    assert_eq!(addresses_in(&answer(2, &records)), wanted);
    let other = of(&labels("evil.test"), A, 300, &[198, 51, 100, 1]);
    assert_eq!(addresses_in(&answer(1, &[other])), vec![], "the record of another name");
    assert_eq!(addresses_in(&answer(9, &records)), wanted, "the count is larger than the message");
    assert_eq!(addresses_in(&answer(1, &records)), wanted[..1], "records behind the answer are not answers");
}

#[test]
fn aliases_are_followed_in_any_order_and_bound_the_time() {
    let edge = of(&labels("edge.test"), A, 300, &[192, 0, 2, 7]);
    let alias = of(&ASKED, CNAME, 60, &labels("Edge.TEST"));
    for records in [[edge.clone(), alias.clone()], [alias.clone(), edge]] {
        assert_eq!(addresses_in(&answer(2, &records)), vec![("192.0.2.7".to_owned(), 60)]);
    }
    let circle = [alias, of(&labels("edge.test"), CNAME, 60, &ASKED)];
    assert_eq!(addresses_in(&answer(2, &circle)), vec![], "a circle ends");
}

#[test]
fn errors_and_other_questions_are_left_out() {
    let bytes = answer(1, &[of(&ASKED, A, 300, &[192, 0, 2, 7])]);
    let with = |at: usize, byte: u8| {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        read(&bytes)
    };
    assert!(matches!(with(0, 0), Some(Message::Answer(..))));
    assert_eq!(with(3, 0x83), None, "there is no such name");
    assert_eq!(with(2, 0x91), None, "another operation");
    assert_eq!(with(5, 2), None, "two questions");
    assert_eq!(with(30, 16), None, "a question for texts");
    assert_eq!(with(32, 3), None, "another class");
    assert_eq!(with(13, b' '), None, "no name of a host");
    assert!(matches!(with(2, 1), Some(Message::Question(_))));
}

#[test]
fn wrong_lengths_of_addresses_are_left_out() {
    let records = [of(&ASKED, A, 300, &[192, 0, 2]), of(&ASKED, AAAA, 300, &[192, 0, 2, 7]), of(&ASKED, A, 9, &[1; 4])];
    assert_eq!(addresses_in(&answer(3, &records)), vec![("1.1.1.1".to_owned(), 9)]);
}

#[test]
fn every_truncation_is_read_without_a_panic() {
    let bytes =
        answer(2, &[of(&ASKED, CNAME, 60, &labels("edge.test")), of(&labels("edge.test"), A, 9, &[192, 0, 2, 7])]);
    for end in 0..bytes.len() {
        match read(&bytes[..end]) {
            None => assert!(end < 33),
            Some(Message::Answer(_, addresses)) => assert_eq!(addresses, vec![]),
            Some(Message::Question(_)) => panic!("a question of {end} bytes"),
        }
    }
}

#[test]
fn pointers_lead_backwards_only() {
    for pointer in [[0xc0, 33], [0xc0, 34], [0xc0, 200], [0xff, 0xff]] {
        let bytes = answer(1, &[of(&pointer, A, 300, &[192, 0, 2, 7])]);
        assert_eq!(addresses_in(&bytes), vec![], "{pointer:?}");
    }
    // The question points at itself, and at the header, whose bytes are no name that ends.
    for target in [HEADER as u8, HEADER as u8 + 1] {
        let mut bytes = header(0x8180, 1, 0);
        bytes.extend([0xc0, target, 0, 1, 0, 1]);
        assert_eq!(read(&bytes), None);
    }
    // A chain of pointers, each to the one before, as long as the message allows.
    let mut bytes = header(0x8180, 1, 1);
    bytes.extend(labels("www.example.com"));
    bytes.extend([0, 1, 0, 1]);
    let mut last = HEADER;
    let begin = bytes.len();
    bytes.extend([0, 0, 99, 0, 1, 0, 0, 0, 0]);
    bytes.extend(16_000_u16.to_be_bytes());
    for _ in 0..8_000 {
        let at = bytes.len();
        bytes.extend([0xc0 | (last >> 8) as u8, last as u8]);
        last = at;
    }
    assert!(last < 1 << 14 && begin < last);
    assert_eq!(addresses_in(&bytes), vec![]);
    let (found, end) = name(&bytes, last).expect("each leads backwards");
    assert_eq!((found.as_deref(), end), (Some("www.example.com"), last + 2));
}

#[test]
fn names_and_records_are_bounded() {
    let long: Vec<u8> = labels(&["a"; 128].join("."));
    let mut bytes = header(0x0100, 1, 0);
    bytes.extend(&long);
    bytes.extend([0, 1, 0, 1]);
    assert_eq!(read(&bytes), None, "a name of 257 bytes");
    let records: Vec<_> = (0..200_u8).map(|n| of(&ASKED, A, 300, &[192, 0, 2, n])).collect();
    assert_eq!(addresses_in(&answer(u16::MAX, &records)).len(), MOST_RECORDS);
    for label in [0x40, 0x80] {
        let mut bytes = header(0x0100, 1, 0);
        bytes.extend([label, 0, 0, 1, 0, 1]);
        assert_eq!(read(&bytes), None, "a length that is reserved");
    }
}
