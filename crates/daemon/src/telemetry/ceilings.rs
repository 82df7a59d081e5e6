//! The ceilings that flows and classes have reached, beside those that the data path says their packets wait for.
//!
//! *Law*: a flow with a queue whose rule sends at 7/8 of its ceiling or more waits for that ceiling. A class all of whose flows
//! with a queue wait for ceilings does, too.
//! *Notes*: the data path knows what the next packet waits for at one moment, and on a full line that packet may wait for the
//! others although its ceiling has just paid for it. Rates are those of about a second.

use std::collections::HashMap;

use tidegate_config::shaper::Config;
use tidegate_control::calls::{ClassObservation, FlowObservation, HeldBy};

/// Sets what flows wait for whose rule has reached its ceiling. Each comes with the index of the rule that it matched.
pub(super) fn hold_flows(config: &Config, flows: &mut [(Option<u32>, FlowObservation)]) {
    let mut rates: HashMap<u32, u64> = HashMap::new();
    for (rule, flow) in flows.iter() {
        if let Some(rule) = rule {
            let rate = rates.entry(*rule).or_default();
            *rate = rate.saturating_add(flow.rate.as_bps());
        }
    }
    let is_reached = |rule: u32| {
        let most = config.rules.get(rule as usize).and_then(|rule| rule.at_most);
        most.is_some_and(|most| rates.get(&rule).is_some_and(|rate| *rate >= most.rate.as_bps() / 8 * 7))
    };
    for (rule, flow) in flows {
        if flow.held_by.is_none() && flow.queue.packets > 0 && rule.is_some_and(is_reached) {
            flow.held_by = Some(HeldBy::Rule);
        }
    }
}

/// Sets what classes wait for all of whose `flows` with a queue wait for ceilings.
pub(super) fn hold_classes(classes: &mut [ClassObservation], flows: &[FlowObservation]) {
    let mut held: HashMap<&str, Option<HeldBy>> = HashMap::new();
    for flow in flows.iter().filter(|flow| flow.queue.packets > 0) {
        let of_class = held.entry(flow.leaves_through()).or_insert(flow.held_by);
        *of_class = of_class.and(flow.held_by);
    }
    for class in classes.iter_mut().filter(|class| class.queue.packets > 0) {
        class.held_by = class.held_by.or_else(|| held.get(class.name.as_str()).copied().flatten());
    }
}

#[cfg(test)]
mod tests {
    use tidegate_config::{Diagnostics, Source, shaper};
    use tidegate_control::calls::Queued;
    use tidegate_units::{Bytes, Rate};

    use super::*;

    #[test]
    fn flows_at_the_ceiling_of_their_rule_are_held_by_it_and_so_is_their_class() {
        let text = "version = 1\n[[class]]\nname = \"house\"\nrate = \"20mbit\"\ndefault = true\n\
                    [[rule]]\nclass = \"house\"\nport = 1\n[[rule]]\nclass = \"house\"\nport = 2\nat-most = \"8mbit\"\n";
        let config = shaper::load(&Source::new("rule.toml", text), &mut Diagnostics::new()).expect("valid");
        let flow = |rule, kbit, packets| {
            let queue = Queued { packets, bytes: Bytes::new(1_500 * packets) };
            let flow = FlowObservation {
                class: "house".into(),
                rate: Rate::from_kbit(kbit),
                queue,
                ..FlowObservation::default()
            };
            (rule, flow)
        };
        let said = |mut flows: Vec<(Option<u32>, FlowObservation)>| {
            hold_flows(&config, &mut flows);
            let flows: Vec<_> = flows.into_iter().map(|(_, flow)| flow).collect();
            let (name, queue) = ("house".into(), Queued { packets: 1, bytes: Bytes::new(1_500) });
            let mut classes = [ClassObservation { name, queue, ..ClassObservation::default() }];
            hold_classes(&mut classes, &flows);
            (flows.iter().map(|flow| flow.held_by).collect::<Vec<_>>(), classes[0].held_by)
        };
        let rule = Some(HeldBy::Rule);
        // The ceiling is that of all flows of the rule together.
        assert_eq!(said(vec![flow(Some(1), 4_000, 3), flow(Some(1), 3_500, 2)]), (vec![rule, rule], rule));
        assert_eq!(said(vec![flow(Some(1), 4_000, 3), flow(Some(1), 2_500, 2)]), (vec![None, None], None));
        // One without a queue waits for nothing; another one that waits could leave.
        assert_eq!(said(vec![flow(Some(1), 8_000, 3), flow(Some(0), 9_000, 0)]), (vec![rule, None], rule));
        assert_eq!(said(vec![flow(Some(1), 8_000, 3), flow(None, 9_000, 1)]), (vec![rule, None], None));
    }
}
