//! The arithmetic of the guarantees of a valid configuration.

use tidegate_core::{Bytes, ClassId, Rate, Span};

use super::config::{Config, Root};
use crate::classes::{Borrow, Bursts, Shaper};
use crate::values::Percent;

/// The sum of the promises of a shaper.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Guarantees {
    /// The total rate, which is never exceeded.
    pub total: Rate,
    /// The sum of the rates of the classes.
    pub promised: Rate,
    /// The part of the total that is not promised; classes that borrow can use it.
    pub left: Rate,
    /// Class by class, in the order of the file.
    pub classes: Vec<ClassGuarantees>,
}

/// The guarantees of a class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassGuarantees {
    /// The id of the class.
    pub class: ClassId,
    /// The part of the total, rounded down to a millionth.
    pub part: Percent,
    /// The rate of the class while all others are idle.
    pub at_most: Rate,
    /// The most that each of its hosts gets, if that is bounded.
    pub host_at_most: Option<Rate>,
    /// The most that each of its flows gets, if that is bounded.
    pub flow_at_most: Option<Rate>,
    /// The largest burst, if it is bounded.
    pub burst: Option<Bytes>,
    /// The longest delay of a packet behind a full queue while the class gets its guaranteed rate.
    pub longest_wait: Option<Span>,
    /// The sum of the minimum rates of its rules, each times its number of flows.
    pub minimums: Rate,
    /// The rate that is left for sharing by weight.
    pub shared: Rate,
    /// Rule by rule, those with a minimum rate.
    pub rules: Vec<RuleGuarantees>,
}

/// The promises of a rule with a minimum rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleGuarantees {
    /// Its index in [`Config::rules`].
    pub rule: usize,
    /// The minimum of each flow.
    pub minimum: Rate,
    /// The number of flows to which the minimum is guaranteed.
    pub flows: u32,
    /// The number of flows of this rule that fill the class while every other rule has as many flows as it is promised.
    /// A further flow is accepted with rate 0 until another flow ends.
    pub full_at: u64,
}

/// Adds up the guarantees. `None` if the root is a discipline, whose guarantees are in its parameters.
pub fn guarantees(config: &Config) -> Option<Guarantees> {
    let Root::Shaper(shaper) = &config.root else { return None };
    let promised: Rate = shaper.classes.iter().map(|class| class.rate).sum();
    let classes = (0..shaper.classes.len()).map(|i| class(config, shaper, i)).collect();
    Some(Guarantees { total: shaper.rate, promised, left: shaper.rate.saturating_sub(promised), classes })
}

fn class(config: &Config, shaper: &Shaper, i: usize) -> ClassGuarantees {
    let class = &shaper.classes[i];
    let of_class = || config.rules.iter().enumerate().filter(|(_, r)| r.class.0 as usize == i && !r.minimum.is_zero());
    let minimums: Rate = of_class().map(|(_, rule)| times(rule.minimum, rule.flows)).sum();
    let shared = class.rate.saturating_sub(minimums);
    let rules = of_class()
        .map(|(index, rule)| RuleGuarantees {
            rule: index,
            minimum: rule.minimum,
            flows: rule.flows,
            // The rate that other rules do not claim is available to this one.
            full_at: (shared + times(rule.minimum, rule.flows)).as_bps() / rule.minimum.as_bps(),
        })
        .collect();
    let part = u128::from(class.rate.as_bps()) * 1_000_000 / u128::from(shaper.rate.as_bps().max(1));
    ClassGuarantees {
        class: ClassId(i as u32),
        part: u32::try_from(part).ok().and_then(Percent::from_millionths).unwrap_or_default(),
        at_most: match class.borrow {
            Borrow::Allowed => class.at_most.class.map_or(shaper.rate, |ceiling| ceiling.rate.min(shaper.rate)),
            Borrow::Never => class.rate,
        },
        host_at_most: class.at_most.host.map(|ceiling| ceiling.rate),
        flow_at_most: class.at_most.flow.map(|ceiling| ceiling.rate),
        burst: (class.bursts == Bursts::Strict).then_some(class.burst),
        longest_wait: if class.queue.is_none() { class.rate.time_for_ceil(class.limit) } else { None },
        minimums,
        shared,
        rules,
    }
}

fn times(rate: Rate, n: u32) -> Rate {
    Rate::from_bps(rate.as_bps().saturating_mul(u64::from(n)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Diagnostics, Source, shaper};

    #[test]
    fn the_sums_add_up() {
        let text = r#"
            version = 1
            [shaper]
            rate = "80mbit"
            [[class]]
            name = "a"
            rate = "10mbit"
            borrow = false
            limit = "125kB"
            default = true
            [[class]]
            name = "b"
            rate = "30mbit"
            [[rule]]
            class = "a"
            dscp = "ef"
            minimum = "2mbit"
            flows = 2
            [[rule]]
            class = "a"
            minimum = "1.5mbit"
        "#;
        let source = Source::new("test", text);
        let mut diagnostics = Diagnostics::new();
        let config =
            shaper::load(&source, &mut diagnostics).unwrap_or_else(|| panic!("{}", diagnostics.render(&source)));
        let sums = guarantees(&config).unwrap();
        assert_eq!((sums.promised, sums.left), (Rate::from_mbit(40), Rate::from_mbit(40)));
        let a = &sums.classes[0];
        // 10 of 80 is an eighth. 2 x 2 + 1.5 = 5.5 promised, 4.5 shared.
        assert_eq!(a.part.to_string(), "12.5%");
        assert_eq!((a.minimums, a.shared), (Rate::from_kbit(5_500), Rate::from_kbit(4_500)));
        // 125 kB are 1 Mbit: 100 ms at 10 Mbit/s.
        assert_eq!(a.longest_wait, Some(Span::from_millis(100)));
        assert_eq!(a.at_most, Rate::from_mbit(10));
        // The first rule: (4.5 + 4) / 2 = 4.25, so 4 flows. The second: (4.5 + 1.5) / 1.5 = 4 flows.
        assert_eq!([a.rules[0].full_at, a.rules[1].full_at], [4, 4]);
        assert_eq!(sums.classes[1].at_most, Rate::from_mbit(80));
    }
}
