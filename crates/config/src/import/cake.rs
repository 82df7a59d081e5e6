//! The options of the kernel's CAKE: `tc qdisc add dev eth0 root cake OPTIONS`, or what `tc qdisc show` prints.

use std::fmt::Write as _;

use tidegate_core::{Bytes, Rate};

use super::quantity::{rate, size};
use super::{Import, ImportError, Input, interface, is_interface, quoted};
use crate::Source;
use crate::suggest::nearest;

/// Options that are often mistyped: those without which a file is another one.
const OPTIONS: [&str; 20] = [
    "bandwidth",
    "unlimited",
    "besteffort",
    "diffserv3",
    "diffserv4",
    "diffserv8",
    "overhead",
    "mpu",
    "rtt",
    "memlimit",
    "dual-srchost",
    "dual-dsthost",
    "srchost",
    "dsthost",
    "triple-isolate",
    "ack-filter",
    "ingress",
    "nat",
    "wash",
    "flowblind",
];

/// A CAKE that is being imported.
pub(super) struct Cake {
    pub rate: Option<Rate>,
    pub overhead: u32,
    pub least: u32,
    pub framing: &'static str,
    pub tins: &'static str,
    pub hosts: &'static str,
    pub ack_filter: bool,
    pub drops: bool,
    pub limit: Option<Bytes>,
}

impl Cake {
    /// The kernel's defaults: tins of `diffserv3`, and hosts on both sides.
    pub const fn new() -> Self {
        Self {
            rate: None,
            overhead: 0,
            least: 0,
            framing: "none",
            tins: "diffserv3",
            hosts: "pair",
            ack_filter: false,
            drops: false,
            limit: None,
        }
    }

    /// The keys of its section.
    pub fn keys(&self) -> String {
        let mut text = String::from("kind = \"cake\"\n");
        if let Some(rate) = self.rate {
            let _ = writeln!(text, "rate = \"{rate}\"");
        }
        if self.overhead > 0 {
            let _ = writeln!(text, "overhead = {}", self.overhead);
        }
        if self.least > 0 {
            let _ = writeln!(text, "least = \"{}B\"", self.least);
        }
        if self.framing != "none" {
            let _ = writeln!(text, "framing = \"{}\"", self.framing);
        }
        let _ = writeln!(text, "tins = \"{}\"\nhosts = \"{}\"", self.tins, self.hosts);
        if self.ack_filter {
            text.push_str("ack-filter = \"on\"\n");
        }
        if self.drops {
            text.push_str("signal = \"drop\"\n");
        }
        if let Some(limit) = self.limit {
            let _ = writeln!(text, "limit = \"{}B\"", limit.as_u64());
        }
        text
    }

    /// A file for one direction.
    pub fn file(&self, name: Option<&str>, direction: &str) -> String {
        format!("{}\n[discipline]\n{}", interface(name, direction), self.keys())
    }

    /// Takes the options of a line; what has no counterpart is left.
    ///
    /// # Errors
    /// For a value that cannot be read, and a word that is nearly that of an option.
    pub fn options<'w>(
        &mut self,
        mut words: impl Iterator<Item = &'w str>,
        line: usize,
        input: &mut Input<'_>,
    ) -> Result<(), ImportError> {
        while let Some(word) = words.next() {
            if self.simple(word, line, input) {
                continue;
            }
            let value = match word {
                "bandwidth" | "overhead" | "mpu" | "rtt" | "memlimit" | "fwmark" | "refcnt" | "parent" | "dev" => {
                    words.next().ok_or_else(|| {
                        input.error(line, format!("`{word}` has no value"), "write the options as tc(8) prints them")
                    })?
                }
                _ => "",
            };
            let cannot = |input: &Input<'_>| {
                let message = format!("{} is no value of `{word}`", quoted(value));
                input.error(line, message, "write the options as tc(8) prints them")
            };
            match word {
                "bandwidth" if value == "unlimited" => self.rate = None,
                "bandwidth" => self.rate = Some(rate(value).ok_or_else(|| cannot(input))?),
                "overhead" if value.starts_with('-') => {
                    input.leave(line, format!("overhead {}: it is negative; 0 is used", quoted(value)));
                }
                // The kernel's bounds.
                "overhead" => self.overhead = number(value, 256).ok_or_else(|| cannot(input))?,
                "mpu" => self.least = number(value, 256).ok_or_else(|| cannot(input))?,
                "memlimit" => self.limit = Some(size(value).ok_or_else(|| cannot(input))?),
                "rtt" if matches!(value, "100ms" | "100000" | "100.0ms") => {}
                "rtt" => input.leave(line, format!("rtt {}: CAKE here is set for 100 ms, `internet`", printed(value))),
                "fwmark" => {
                    let text = format!("fwmark {}: tins by mark; write a rule with `mark`", printed(value));
                    input.leave(line, text);
                }
                "refcnt" | "parent" | "dev" => {}
                _ => match nearest(word, OPTIONS) {
                    Some(meant) => {
                        let message = format!("CAKE has no option {}", quoted(word));
                        return Err(input.error(line, message, format!("did you mean `{meant}`?")));
                    }
                    None => input.leave(line, format!("{}: not an option of CAKE that is known here", quoted(word))),
                },
            }
        }
        Ok(())
    }

    /// Takes an option without a value; returns whether it was one.
    fn simple(&mut self, word: &str, line: usize, input: &mut Input<'_>) -> bool {
        if let Some((overhead, least, framing)) = preset(word) {
            self.overhead = overhead;
            self.framing = framing.unwrap_or(self.framing);
            self.least = least.unwrap_or(self.least);
            return true;
        }
        let mut leave = |text: &str| input.leave(line, format!("{word}: {text}"));
        match word {
            "unlimited" => self.rate = None,
            "besteffort" => self.tins = "besteffort",
            "diffserv3" => self.tins = "diffserv3",
            "diffserv4" => self.tins = "diffserv4",
            "diffserv8" | "precedence" => {
                self.tins = "diffserv4";
                leave("eight tins; four of `diffserv4` are used");
            }
            "flows" => self.hosts = "flows",
            "flowblind" => {
                self.hosts = "flows";
                leave("one queue for all; flows are separated here");
            }
            "srchost" | "dual-srchost" => self.hosts = "source",
            "dsthost" | "dual-dsthost" => self.hosts = "destination",
            "hosts" | "triple-isolate" => self.hosts = "pair",
            "ack-filter" => self.ack_filter = true,
            "ack-filter-aggressive" => {
                self.ack_filter = true;
                leave("the filter here is the one of `ack-filter`");
            }
            "no-ack-filter" => self.ack_filter = false,
            "atm" => self.framing = "atm",
            "ptm" => self.framing = "ptm",
            "noatm" => self.framing = "none",
            "ether-vlan" => self.overhead += 4,
            "wash" => leave("code points are not cleared; a class of `[[class]]` has `dscp` for that"),
            "ingress" => leave("dropped packets do not count against the rate; lower the rate by a few percent"),
            "autorate-ingress" => leave("the rate is fixed; `follow` of `[shaper]` lets it follow the line"),
            "no-split-gso" => leave("superpackets are always segmented where they are too long for the rate"),
            // Here hosts are told apart by their inner addresses anyway: before translation, and after it is undone.
            "nat" | "nonat" | "nowash" | "egress" | "split-gso" | "root" | "raw" | "conservative" => self.whole(word),
            _ => return false,
        }
        true
    }

    /// The words that set several things at once, or nothing.
    fn whole(&mut self, word: &str) {
        match word {
            "raw" => (self.overhead, self.least, self.framing) = (0, 0, "none"),
            "conservative" => (self.overhead, self.framing) = (48, "atm"),
            _ => {}
        }
    }
}

fn printed(value: &str) -> String {
    quoted(value).trim_matches('`').to_owned()
}

fn number(text: &str, most: u32) -> Option<u32> {
    text.parse().ok().filter(|number| *number <= most)
}

/// The overhead, the smallest size and the framing that a keyword of tc-cake(8) stands for.
fn preset(word: &str) -> Option<(u32, Option<u32>, Option<&'static str>)> {
    Some(match word {
        "ipoa-vcmux" => (8, None, Some("atm")),
        "ipoa-llcsnap" => (16, None, Some("atm")),
        "bridged-vcmux" => (24, None, Some("atm")),
        "bridged-llcsnap" => (32, None, Some("atm")),
        "pppoa-vcmux" => (10, None, Some("atm")),
        "pppoa-llc" => (14, None, Some("atm")),
        "pppoe-vcmux" => (32, None, Some("atm")),
        "pppoe-llcsnap" => (40, None, Some("atm")),
        "pppoe-ptm" => (30, None, Some("ptm")),
        "bridged-ptm" => (22, None, Some("ptm")),
        "ethernet" => (38, Some(84), None),
        "docsis" => (18, Some(64), Some("none")),
        _ => return None,
    })
}

/// The words after `cake` of a line, the interface that it names, and whether that is for arriving packets.
pub(super) fn line_of(line: &str) -> (Vec<&str>, Option<&str>) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let device = words.windows(2).find(|pair| pair[0] == "dev").map(|pair| pair[1]).filter(|name| is_interface(name));
    let begin = words.iter().position(|word| *word == "cake").map_or(0, |at| at + 1);
    let options = words[begin..].iter().skip_while(|word| is_handle(word)).copied();
    (options.collect(), device)
}

/// Whether a word is the handle of a queueing discipline, such as `8001:`.
fn is_handle(word: &str) -> bool {
    word.strip_suffix(':').is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The interface whose arriving packets a device of this name takes, by the custom of sqm-scripts: `ifb4eth0`.
pub(super) fn behind_ifb(device: &str) -> Option<&str> {
    device.strip_prefix("ifb4").filter(|name| is_interface(name))
}

/// Imports one CAKE: its options, a command that makes it, or the line that `tc qdisc show` prints of it. `interface` names
/// the interface, instead of the one in the line.
///
/// # Errors
/// When the text is no line of options, with its place.
pub fn cake(source: &Source, interface: Option<&str>) -> Result<Import, ImportError> {
    let mut input = Input::new(source)?;
    let mut lines = input.lines().filter(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    let first = lines.next();
    let rest: Vec<usize> = lines.map(|(at, _)| at).collect();
    let Some((at, line)) = first else {
        return Err(
            input.whole("there is no line of options", "write them as in `tc qdisc add dev eth0 root cake ...`")
        );
    };
    let (words, device) = line_of(line);
    let mut cake = Cake::new();
    cake.options(words.into_iter(), at, &mut input)?;
    for at in rest {
        input.leave(at, "another line: each CAKE is imported alone, `tidegate import tc` takes several");
    }
    if cake.rate.is_none() {
        input.leave(at, "no bandwidth: without `rate` something else must shape");
    }
    let from = device.and_then(behind_ifb);
    let direction = if from.is_some() { "ingress" } else { "egress" };
    let body = cake.file(interface.or(from).or(device), direction);
    Ok(input.finish("the options of a CAKE", &body))
}
