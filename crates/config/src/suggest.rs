//! "Did you mean": finds the nearest of a list of names.

/// Levenshtein distance in characters, where two neighbours in the wrong order count as one slip.
pub fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut next = vec![i + 1];
        for j in 0..b.len() {
            let replaced = row[j] + usize::from(a[i] != b[j]);
            let mut least = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

/// The name nearest to `given`, if it is near enough for a typing error: at most a third of the letters differ, or only
/// case, `_` and `-` do.
pub fn nearest<'a>(given: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Names of hundreds of letters are skipped: they are no typing errors, and computing the distance is quadratic.
    if given.len() > 64 {
        return None;
    }
    let plain = |s: &str| s.to_lowercase().replace('_', "-");
    let given = plain(given);
    names
        .into_iter()
        .filter(|name| name.len() <= 64)
        .map(|name| (distance(&given, &plain(name)), name))
        .filter(|(d, name)| {
            *d <= (name.chars().count().max(given.chars().count()) / 3).max(1) && *d < name.chars().count()
        })
        .min_by_key(|(d, _)| *d)
        .map(|(_, name)| name)
}

/// Names that other shapers have for a key.
const ELSEWHERE: [(&str, &str); 5] =
    [("ceil", "at-most"), ("ceiling", "at-most"), ("max", "at-most"), ("max-rate", "at-most"), ("maximum", "at-most")];

/// The name for what `given` is called elsewhere, if it is one of `names`.
fn translated<'a>(given: &str, names: &[&'a str]) -> Option<&'a str> {
    let (_, ours) = ELSEWHERE.iter().find(|(theirs, _)| *theirs == given)?;
    names.iter().copied().find(|name| name == ours)
}

/// The remedy for an unknown name: suggests the nearest of `names`, or lists all of them.
pub fn help(given: &str, names: &[&str]) -> String {
    match translated(given, names).or_else(|| nearest(given, names.iter().copied())) {
        Some(name) => format!("did you mean `{name}`?"),
        None if names.is_empty() => "there is none to choose from".into(),
        None => {
            // A name that was given twice is an error of its own.
            let once = names.iter().enumerate().filter(|(at, name)| !names[..*at].contains(name));
            format!("choose from {}", listed(&once.map(|(_, name)| *name).collect::<Vec<_>>()))
        }
    }
}

/// Words, and the keys that serve with their remarks.
type Synonyms = (&'static [&'static str], &'static [(&'static str, &'static str)]);

/// Keys of other shapers, or words that people try, with the keys here that serve, the best first: the first one that a table has
/// is suggested, with its remark.
const SYNONYMS: &[Synonyms] = &[
    (
        &["maximum", "max", "ceil", "ceiling", "max-rate", "cap", "upper"],
        &[
            ("at-most", "is a ceiling"),
            ("ceil", "is a ceiling"),
            ("borrow", "can be false: the class then never exceeds its rate"),
        ],
    ),
    (
        &["minimum", "min", "guarantee", "guaranteed", "assured"],
        &[("minimum", ""), ("rate", "is what the class is guaranteed")],
    ),
    (&["prio"], &[("priority", "")]),
    (&["bandwidth", "speed"], &[("rate", "")]),
    (
        &["mac", "mac-address", "hwaddr", "ether", "ether-source"],
        &[("mac", ""), ("mark", "matches what nftables marks: `ether saddr 02:00:00:00:00:01 meta mark set 0x10`")],
    ),
    (&["hostname", "device", "client", "dhcp-name"], &[("host-name", "")]),
    (&["domain", "site", "website", "fqdn", "dns", "sni", "url"], &[("dns-name", "")]),
    (
        &["interface", "in-interface", "iif", "iifname", "dev", "from"],
        &[("from-interface", ""), ("mark", "matches what nftables marks: `iifname br-guest meta mark set 0x10`")],
    ),
    (
        &["time", "times", "hours", "schedule", "days", "at"],
        &[
            ("when", "= \"mon-fri 08:00-18:00\""),
            ("mark", "matches what nftables marks: `meta hour \"08:00\"-\"18:00\" meta mark set 0x10`"),
        ],
    ),
    (
        &["volume", "traffic-limit", "per-month", "monthly"],
        &[
            ("quota", "= \"100GB/month\""),
            ("mark", "matches what nftables marks: `quota over 100000 mbytes meta mark set 0x10`"),
        ],
    ),
    (
        &["ip", "address", "addr", "hosts", "net", "network", "subnet", "local", "remote"],
        &[("host", "is an address at either end")],
    ),
    (&["ports"], &[("port", "is a port at either end")]),
    (&["src", "saddr", "source-address", "source-ip"], &[("source", "")]),
    (&["dst", "daddr", "dest", "destination-address", "destination-ip"], &[("destination", "")]),
    (&["sport", "src-port"], &[("source-port", "")]),
    (&["dport", "dst-port", "dest-port"], &[("destination-port", "")]),
    (
        &["both", "bidirectional", "symmetric", "reverse", "direction"],
        &[("both-ways", "= true matches the answers, too")],
    ),
    (&["size", "packet-size", "packet-length", "bytes"], &[("length", "")]),
    (&["flags", "syn"], &[("tcp-flags", "= \"syn !ack\"")]),
    (&["ack", "acks", "pure-acks", "tcp-ack"], &[("pure-ack", "= true")]),
    (&["icmp", "ping"], &[("icmp-type", "= \"echo-request\"")]),
    (&["fwmark", "nfmark", "meta-mark", "ct-mark"], &[("mark", "")]),
    (&["tos", "traffic-class", "diffserv"], &[("dscp", "")]),
    (&["user", "owner"], &[("uid", "")]),
    (&["proto", "l4proto"], &[("protocol", "")]),
    (&["ecn", "noecn", "marking"], &[("signal", "= \"mark\", which is the default, or \"drop\"")]),
    (&["ce-threshold"], &[("l4s-step", "")]),
];

/// The remedy for an unknown key of a table: the key that serves, if `given` is a usual word for it; else that of [`help`].
pub fn key(given: &str, known: &[&str]) -> String {
    let plain = given.to_lowercase().replace('_', "-");
    let serving = SYNONYMS
        .iter()
        .filter(|(words, _)| words.contains(&&*plain))
        .flat_map(|(_, keys)| keys.iter())
        .find(|(key, _)| known.contains(key));
    match serving {
        Some((key, "")) => format!("write `{key}`"),
        Some((key, remark)) if remark.starts_with('=') => format!("write {key} {remark}"),
        Some((key, remark)) => format!("`{key}` {remark}"),
        None => help(given, known),
    }
}

/// The words with the article that they have: `a port`, `an address`.
pub fn with_article(words: &str) -> String {
    // A user and a uid begin with a consonant's sound.
    let is_vowel = words.starts_with(['a', 'e', 'i', 'o', 'A', 'E', 'I', 'O']);
    format!("{} {words}", if is_vowel { "an" } else { "a" })
}

/// `a`, `b` and `c`.
pub fn listed(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_other_shapers_are_answered_by_the_key_that_serves() {
        let class = ["name", "rate", "priority", "borrow"];
        assert_eq!(key("maximum", &class), "`borrow` can be false: the class then never exceeds its rate");
        assert_eq!(key("ceil", &["rate", "at-most", "borrow"]), "`at-most` is a ceiling");
        assert_eq!(key("MAX", &["rate", "at-most", "borrow"]), "`at-most` is a ceiling");
        let rule = ["host", "mark", "dscp", "source-port"];
        assert!(key("mac", &rule).starts_with("`mark` matches what nftables marks"));
        assert!(key("interface", &rule).contains("iifname"));
        assert!(key("time", &rule).contains("meta hour"));
        assert_eq!(key("time", &["when", "mark"]), "write when = \"mon-fri 08:00-18:00\"");
        assert_eq!(key("sport", &rule), "write `source-port`");
        assert_eq!(key("soruce-port", &rule), "did you mean `source-port`?");
        assert!(key("colour", &rule).starts_with("choose from"));
        let queue = ["target", "interval", "signal", "l4s-step"];
        assert_eq!(key("ecn", &queue), "write signal = \"mark\", which is the default, or \"drop\"");
        assert_eq!(key("ce_threshold", &queue), "write `l4s-step`");
    }

    #[test]
    fn names_are_listed_once_and_words_have_their_article() {
        assert_eq!(help("colour", &["rest", "guests", "guests"]), "choose from `rest` and `guests`");
        assert_eq!(with_article("address or prefix"), "an address or prefix");
        assert_eq!(with_article("user"), "a user");
    }

    #[test]
    fn misspelt_names_are_suggested_and_unrelated_are_not() {
        let keys = ["rate", "burst", "flow-burst", "priority"];
        assert_eq!(nearest("rat", keys), Some("rate"));
        assert_eq!(nearest("flow_burst", keys), Some("flow-burst"));
        assert_eq!(help("maximum", &["minimum", "at-most"]), "did you mean `at-most`?");
        assert_eq!(help("maximum", &["minimum"]), "did you mean `minimum`?");
        assert_eq!(nearest("prioritiy", keys), Some("priority"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("x", ["y"]), None);
        // kitten -> sitten -> sittin -> sitting.
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("dealy", "delay"), 1);
    }
}
