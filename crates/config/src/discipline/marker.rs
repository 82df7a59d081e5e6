//! `kind = "marker"`: [`tidegate_core::marker`].

use tidegate_core::marker::{Marker, Point};
use tidegate_core::{Packet, Qdisc, Rate};

use super::kinds::{Discipline, MarkerQueue};
use super::section::{Section, Site};
use crate::diagnostic::{Diagnostics, Place};

crate::choices! {
    impl "point" for Point {
        /// Before the discipline inside: packets are metered on arrival.
        Entry = "entry",
        /// Behind the discipline inside: packets are metered as they leave.
        Exit = "exit",
    }
}

impl Section for MarkerQueue {
    fn check(&self, _place: Place, diagnostics: &mut Diagnostics) {
        self.conditioner.check(diagnostics);
        if let Some(inside) = &self.inside {
            inside.value.0.check(inside.place, diagnostics);
        }
    }
    fn classes(&self) -> Vec<&str> {
        self.inside.as_ref().map_or_else(Vec::new, |inside| inside.value.0.classes())
    }
    fn default_class(&self) -> Option<&str> {
        self.inside.as_ref().and_then(|inside| inside.value.0.default_class())
    }
    fn line(&self) -> Option<Rate> {
        self.inside.as_ref().and_then(|inside| inside.value.0.line())
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        let within = Site { name: format!("{}.inside", site.name), ..site.clone() };
        let inner: Box<dyn Qdisc<P>> = match &self.inside {
            Some(inside) => inside.value.0.build(&within),
            None => Discipline::plain().build(&within),
        };
        Box::new(Marker::new(inner, self.conditioner.build(site), self.at))
    }
}
