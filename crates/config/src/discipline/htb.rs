//! `kind = "htb"`: [`tidegate_core::htb`].

use std::collections::HashMap;

use tidegate_core::htb::{Class, Htb};
use tidegate_core::{Bytes, Packet, ParamError, Qdisc, Rate, Span};

use super::kinds::Inside;
pub use super::kinds::{HtbClass, HtbQueue};
use super::section::{NoPacket, Section, Site, report};
use super::tree::{self, Branch};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

/// A class of an HTB with the rates that it is built with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HtbRow<'a> {
    /// Its name.
    pub name: &'a str,
    /// The class that it borrows from.
    pub parent: Option<&'a str>,
    /// The guaranteed rate.
    pub rate: Rate,
    /// The highest rate.
    pub ceil: Rate,
    /// Its turn among those that borrow, 0 first.
    pub priority: u8,
    /// The sum of the rates of its children, for a class that has some.
    pub promised: Option<Rate>,
    /// The kind of its queue, for a class without children.
    pub queue: Option<&'static str>,
}

impl Branch for HtbClass {
    fn name(&self) -> &Spanned<String> {
        &self.name
    }
    fn parent(&self) -> Option<&Spanned<String>> {
        self.parent.as_ref()
    }
    fn queue(&self) -> Option<&Spanned<Inside>> {
        self.queue.as_ref()
    }
}

impl HtbClass {
    fn class(&self) -> Class {
        let rate = self.rate.value;
        let ceil = self.ceil.as_ref().map_or(rate, |ceil| ceil.value);
        let burst = |rate: Rate| rate.bytes_in_floor(Span::from_millis(1)) + Bytes::new(1_600);
        let new = Class::new(rate);
        Class {
            ceil,
            burst: self.burst.as_ref().map_or(burst(rate), |burst| burst.value),
            cburst: self.cburst.as_ref().map_or(burst(ceil), |burst| burst.value),
            priority: self.priority.value,
            quantum: self.quantum.as_ref().map_or(new.quantum, |quantum| quantum.value),
            ..new
        }
    }

    fn report(&self, error: &ParamError, diagnostics: &mut Diagnostics) {
        let place = |bytes: &Option<Spanned<Bytes>>| bytes.as_ref().map_or(self.name.place, |bytes| bytes.place);
        let places = [
            ("rate", self.rate.place),
            ("ceil", self.ceil.as_ref().map_or(self.rate.place, |ceil| ceil.place)),
            ("burst", place(&self.burst)),
            ("cburst", place(&self.cburst)),
            ("priority", self.priority.place),
            ("quantum", place(&self.quantum)),
        ];
        report(error, &places, self.name.place, diagnostics);
    }
}

impl HtbQueue {
    fn tree<P: Packet + 'static>(&self, site: &Site) -> Result<Htb<P>, ParamError> {
        let nodes = tree::nodes(&self.class, HtbClass::class, site);
        Htb::new(nodes, tree::default_class(&self.class, self.default.as_ref()))
    }

    /// The classes with their rates, in the order of the file.
    pub fn rows(&self) -> Vec<HtbRow<'_>> {
        let children = |name: &str| -> Vec<Rate> {
            let is_child = |class: &&Spanned<HtbClass>| class.value.parent.as_ref().is_some_and(|of| of.value == name);
            self.class.iter().filter(is_child).map(|class| class.value.rate.value).collect()
        };
        let mut rows = Vec::with_capacity(self.class.len());
        for Spanned { value: section, .. } in &self.class {
            let (built, name) = (section.class(), section.name.value.as_str());
            let below = children(name);
            let queue = section.queue.as_ref().map(|queue| queue.value.0.kind());
            rows.push(HtbRow {
                name,
                parent: section.parent.as_ref().map(|parent| parent.value.as_str()),
                rate: built.rate,
                ceil: built.ceil,
                priority: built.priority,
                queue: queue.or_else(|| below.is_empty().then_some("fifo")),
                promised: (!below.is_empty()).then(|| below.into_iter().sum()),
            });
        }
        rows
    }

    /// Warns of classes whose children are promised more than the class has.
    fn check_rates(&self, diagnostics: &mut Diagnostics) {
        let mut below = HashMap::<&str, Rate>::new();
        for class in &self.class {
            if let Some(parent) = &class.value.parent {
                *below.entry(&parent.value).or_default() += class.value.rate.value;
            }
        }
        for class in &self.class {
            let class = &class.value;
            let promised = below.get(class.name.value.as_str()).copied().unwrap_or_default();
            if promised > class.rate.value {
                diagnostics
                    .warning(
                        class.rate.place,
                        format!(
                            "the classes under `{}` are promised {promised}, and it has {}",
                            class.name.value, class.rate.value
                        ),
                    )
                    .label("their rates are not assured")
                    .help(
                        "a class within its rate sends even if its ancestors exceed theirs: raise this rate, or lower \
                         those of the child classes",
                    );
            }
        }
    }
}

impl Section for HtbQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if !tree::check("htb", &self.class, self.default.as_ref(), place, diagnostics) {
            return;
        }
        let mut good = true;
        for class in &self.class {
            if let Err(error) = class.value.class().validate() {
                class.value.report(&error, diagnostics);
                good = false;
            }
        }
        let site = Site { seed: 0, name: String::new(), now: tidegate_core::Instant::ZERO };
        if good && let Err(error) = self.tree::<NoPacket>(&site) {
            report(&error, &[], place, diagnostics);
        }
        self.check_rates(diagnostics);
    }
    fn classes(&self) -> Vec<&str> {
        tree::leaves(&self.class)
    }
    fn default_class(&self) -> Option<&str> {
        self.default.as_ref().map(|name| name.value.as_str())
    }
    /// The ceil of the root class, if there is one.
    fn line(&self) -> Option<Rate> {
        let mut top = self.class.iter().filter(|class| class.value.parent.is_none());
        match (top.next(), top.next()) {
            (Some(class), None) => Some(class.value.class().ceil),
            _ => None,
        }
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(self.tree(site).expect("checked"))
    }
}
