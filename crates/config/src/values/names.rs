//! Names of devices and of hosts in the Domain Name System.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value as Json, json};

use crate::decode::{Scalar, Wrong};

/// The longest name of the Domain Name System in its text form (RFC 1035, section 2.3.4).
const LONGEST: usize = 253;
/// The longest label of a name.
const LONGEST_LABEL: usize = 63;

/// The name of a device, as it tells a DHCP server. Written `anna-laptop`. Kept in lower case, because names are compared without it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostName(String);

impl HostName {
    /// Whether a device that is called `name` is meant. A name without a domain means the device in any domain.
    pub fn is(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.');
        let first = name.split_once('.').map_or(name, |(first, _)| first);
        name.eq_ignore_ascii_case(&self.0) || !self.0.contains('.') && first.eq_ignore_ascii_case(&self.0)
    }
}

/// A name that is looked up in the Domain Name System, or all names below one. Written `www.example.com` or `*.example.com`.
/// Kept in lower case.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DnsName {
    /// Without the star.
    name: String,
    /// Whether the names below it are meant instead of itself.
    is_below: bool,
}

impl DnsName {
    /// Whether a name that was asked for is meant.
    pub fn is(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.');
        if !self.is_below {
            return name.eq_ignore_ascii_case(&self.name);
        }
        let (name, end) = (name.as_bytes(), self.name.as_bytes());
        name.len()
            .checked_sub(end.len() + 1)
            .is_some_and(|dot| dot > 0 && name[dot] == b'.' && name[dot + 1..].eq_ignore_ascii_case(end))
    }
}

/// The name in lower case without a dot at its end, if it consists of labels as hosts have them.
fn labels(text: &str) -> Option<String> {
    let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
    let is_label = |label: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        !label.is_empty() && label.len() <= LONGEST_LABEL && label.chars().all(allowed)
    };
    (name.len() <= LONGEST && name.split('.').all(is_label)).then_some(name)
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for DnsName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}{}", if self.is_below { "*." } else { "" }, self.name))
    }
}

impl FromStr for HostName {
    type Err = Wrong;
    fn from_str(text: &str) -> Result<Self, Wrong> {
        Self::from_text(text)
    }
}

impl FromStr for DnsName {
    type Err = Wrong;
    fn from_str(text: &str) -> Result<Self, Wrong> {
        Self::from_text(text)
    }
}

impl Scalar for HostName {
    const WANTED: &'static str = "name of a device";
    const EXAMPLE: &'static str = "anna-laptop";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        labels(text.trim()).map(Self).ok_or_else(|| Wrong {
            message: format!("`{text}` is not the name of a device"),
            help: format!("write for example \"{}\", the name that the leases of the DHCP server have", Self::EXAMPLE),
        })
    }
    fn scalar_schema() -> Json {
        json!({ "type": "string", "pattern": "^[0-9A-Za-z_.-]+$", "examples": [Self::EXAMPLE] })
    }
}

impl Scalar for DnsName {
    const WANTED: &'static str = "name that is looked up";
    const EXAMPLE: &'static str = "*.example.com";
    fn from_text(text: &str) -> Result<Self, Wrong> {
        let trimmed = text.trim();
        let (name, is_below) = trimmed.strip_prefix("*.").map_or((trimmed, false), |below| (below, true));
        labels(name).map(|name| Self { name, is_below }).ok_or_else(|| Wrong {
            message: format!("`{text}` is not a name that is looked up in the Domain Name System"),
            help: format!(
                "write for example \"www.example.com\", or \"{}\" for all names below `example.com`",
                Self::EXAMPLE
            ),
        })
    }
    fn scalar_schema() -> Json {
        json!({ "type": "string", "pattern": "^([*][.])?[0-9A-Za-z_.-]+$", "examples": [Self::EXAMPLE] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_meant_with_and_without_its_domain() {
        let name = HostName::from_text(" Anna-Laptop ").unwrap();
        assert_eq!(name.to_string(), "anna-laptop");
        for (other, is) in
            [("ANNA-laptop", true), ("anna-laptop.lan.", true), ("anna-laptop2", false), ("lan.anna-laptop", false)]
        {
            assert_eq!(name.is(other), is, "{other}");
        }
        let full = HostName::from_text("anna-laptop.lan").unwrap();
        assert!(full.is("anna-laptop.lan") && !full.is("anna-laptop") && !full.is("anna-laptop.guests"));
    }

    #[test]
    fn a_star_stands_for_names_below_and_not_for_the_name_itself() {
        let below = DnsName::from_text("*.Example.COM.").unwrap();
        assert_eq!(below.to_string(), "*.example.com");
        for (name, is) in [
            ("www.example.com", true),
            ("a.b.EXAMPLE.com.", true),
            ("example.com", false),
            (".example.com", false),
            ("badexample.com", false),
            ("www.example.com.evil.test", false),
            ("", false),
        ] {
            assert_eq!(below.is(name), is, "{name}");
        }
        let one = DnsName::from_text("example.com").unwrap();
        assert!(one.is("Example.com.") && !one.is("www.example.com"));
    }

    #[test]
    fn other_texts_are_refused_with_an_example() {
        let long = format!("{}.com", "a".repeat(64));
        for text in ["", "*", "*.", "a..b", "www.*.com", "ex ample.com", "ü.de", ".com", &long, &"a.".repeat(128)] {
            let wrong = DnsName::from_text(text).expect_err(text);
            assert!(wrong.help.contains("*.example.com"), "{text}");
        }
        for text in ["", "*", "anna laptop", "\u{1b}[2J"] {
            assert!(HostName::from_text(text).is_err(), "{text:?}");
        }
    }
}
