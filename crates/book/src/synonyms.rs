//! Words that mean the same for a reader who searches: what other programs and providers call the things of this book.
//!
//! This is the only list. The terminal and the pages use it, the pages through the index of the search.

/// A word that somebody may look for, and the words by which this book calls the same.
pub const SYNONYMS: &[(&str, &[&str])] = &[
    ("ns-3", &["scenario", "simulate"]),
    ("ns3", &["scenario", "simulate"]),
    ("pantheon", &["scenario", "sweep"]),
    ("mahimahi", &["trace", "line"]),
    ("doi", &["cite"]),
    ("quantile", &["percentiles"]),
    ("quantiles", &["percentiles"]),
    ("percentile", &["percentiles"]),
    ("acks", &["acknowledgements", "pure-ack"]),
    ("ack", &["acknowledgements", "pure-ack"]),
    ("allowance", &["quota", "limit"]),
    ("audit", &["changed"]),
    ("bandwidth", &["rate"]),
    ("bufferbloat", &["delay", "wait"]),
    ("bulk", &["backup", "background"]),
    ("burst", &["credit"]),
    ("calls", &["voice"]),
    ("bibtex", &["cite", "latex"]),
    ("cap", &["limit", "ceiling", "at-most"]),
    ("ceil", &["ceiling", "at-most", "borrow"]),
    ("ceiling", &["at-most", "limit"]),
    ("cellular", &["follow"]),
    ("censored", &["unfinished", "completed", "kaplan"]),
    ("citation", &["cite"]),
    ("console", &["device", "hardware"]),
    ("cpu", &["processor"]),
    ("device", &["host", "hardware"]),
    ("cable", &["docsis"]),
    ("counter", &["counts", "matched"]),
    ("download", &["ingress", "arrives"]),
    ("egress", &["leaves", "upstream"]),
    ("firewall", &["nftables", "mark"]),
    ("exclude", &["unshaped", "bypass"]),
    ("fwmark", &["mark"]),
    ("games", &["gaming", "calls"]),
    ("grafana", &["prometheus", "metrics"]),
    ("guest", &["guests", "class"]),
    ("hotspot", &["guests", "guest"]),
    ("hours", &["when", "times"]),
    ("ifb", &["ingress"]),
    ("ingress", &["arrives", "downstream"]),
    ("iptables", &["nftables", "mark"]),
    ("jitter", &["delay", "wait"]),
    ("lower", &["change", "set"]),
    ("lag", &["delay", "wait"]),
    ("latency", &["delay", "wait"]),
    ("masquerade", &["translates", "translation"]),
    ("nat", &["translates", "translation"]),
    ("lte", &["follow", "varies"]),
    ("libreqos", &["cake", "preset"]),
    ("mac", &["hardware", "ether"]),
    ("measurement", &["measure"]),
    ("monthly", &["month", "quota"]),
    ("openwrt", &["sqm", "import"]),
    ("ping", &["delay", "measure"]),
    ("police", &["policer", "marker"]),
    ("prio", &["priority"]),
    ("prioritise", &["priority"]),
    ("prioritize", &["priority"]),
    ("qos", &["class", "shaper"]),
    ("quota", &["allowance", "limit"]),
    ("running", &["live"]),
    ("reload", &["apply"]),
    ("router", &["gateway"]),
    ("schedule", &["when", "times", "hours"]),
    ("star", &["stars", "holm", "corrected"]),
    ("starlink", &["satellite", "varies"]),
    ("slow", &["delay", "wait"]),
    ("speedtest", &["measure"]),
    ("sqm", &["preset", "cake"]),
    ("tc", &["htb", "import"]),
    ("throttle", &["limit", "rate"]),
    ("teams", &["voice", "calls"]),
    ("uninstall", &["remove", "disable"]),
    ("undo", &["rollback", "confirm"]),
    ("upload", &["egress", "leaves"]),
    ("video", &["stream", "calls"]),
    ("voip", &["voice", "calls"]),
    ("wifi", &["wireless"]),
    ("wondershaper", &["import", "preset"]),
    ("zoom", &["voice", "calls"]),
];

/// Returns the words of this book for `word`, which is in lower case; none for most words.
pub fn of(word: &str) -> &'static [&'static str] {
    SYNONYMS.iter().find(|(known, _)| *known == word).map_or(&[], |(_, words)| words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_in_lower_case() {
        let mut known: Vec<&str> = SYNONYMS.iter().map(|(word, _)| *word).collect();
        for (word, others) in SYNONYMS {
            assert!(!others.is_empty() && !others.contains(word), "{word}");
            assert!(others.iter().chain([word]).all(|word| *word == word.to_lowercase()), "{word}");
        }
        let before = known.len();
        known.sort_unstable();
        known.dedup();
        assert_eq!(known.len(), before, "no word twice");
    }
}
