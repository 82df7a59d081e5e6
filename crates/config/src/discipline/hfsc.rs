//! `kind = "hfsc"`: [`tidegate_core::hfsc`].

use tidegate_core::hfsc::{Class, Curve, Hfsc};
use tidegate_core::{Bytes, Packet, ParamError, Qdisc, Rate};

use super::fair::default_lead;
use super::kinds::{HfscClass, HfscQueue, Inside, ServiceCurve};
use super::section::{NoPacket, Section, Site, report};
use super::tree::{self, Branch};
use crate::decode::Spanned;
use crate::diagnostic::{Diagnostics, Place};

impl Branch for HfscClass {
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

impl ServiceCurve {
    fn curve(&self) -> Curve {
        if self.burst == Bytes::ZERO && self.within.value.is_zero() {
            return Curve::linear(self.rate.value);
        }
        Curve::burst_within(self.rate.value, self.burst, self.within.value)
    }
}

impl HfscClass {
    fn class(&self) -> Class {
        let guarantee = self.guarantee.as_ref().map(|curve| curve.value.curve());
        let share = match &self.share {
            Some(share) => (!share.value.is_zero()).then(|| Curve::linear(share.value)),
            None => guarantee,
        };
        Class { guarantee, share }
    }
}

impl HfscQueue {
    fn tree<P: Packet + 'static>(&self, site: &Site) -> Result<Hfsc<P>, ParamError> {
        // The check has ensured that inner classes have a share and no guarantee.
        let nodes = tree::nodes(&self.class, HfscClass::class, site);
        let lead = self.lead.unwrap_or_else(|| default_lead(self.link.value));
        let default = tree::default_class(&self.class, self.default.as_ref());
        Hfsc::new(self.link.value, lead, nodes, default)
    }
}

impl Section for HfscQueue {
    fn check(&self, place: Place, diagnostics: &mut Diagnostics) {
        if !tree::check("hfsc", &self.class, self.default.as_ref(), place, diagnostics) {
            return;
        }
        let mut good = true;
        let inner = tree::inner(&self.class);
        for class in &self.class {
            let class = &class.value;
            let name = &class.name;
            let is_inner = inner.contains(name.value.as_str());
            let Class { guarantee, share } = class.class();
            if let (true, Some(curve)) = (is_inner, &class.guarantee) {
                diagnostics
                    .error(
                        curve.place,
                        format!("class `{}` has child classes, so it cannot have a guarantee", name.value),
                    )
                    .help("give the guarantee to its child classes, and a `share` to this class");
                good = false;
            } else if share.is_none() && (is_inner || guarantee.is_none()) {
                diagnostics
                    .error(name.place, format!("class `{}` has neither a guarantee nor a share", name.value))
                    .help("write for example share = \"1mbit\"");
                good = false;
            }
            for curve in [guarantee, share].iter().flatten() {
                let Err(error) = curve.validate() else { continue };
                let of_share = class.share.as_ref().map_or(name.place, |share| share.place);
                let rate = class.guarantee.as_ref().map_or(of_share, |curve| curve.value.rate.place);
                let within = class.guarantee.as_ref().map_or(name.place, |curve| curve.value.within.place);
                report(&error, &[("rate", rate), ("within", within)], name.place, diagnostics);
                good = false;
                break;
            }
        }
        let site = Site { seed: 0, name: String::new(), now: tidegate_core::Instant::ZERO };
        if good && let Err(error) = self.tree::<NoPacket>(&site) {
            report(&error, &[("link", self.link.place), ("guarantee", self.link.place)], place, diagnostics);
        }
    }
    fn classes(&self) -> Vec<&str> {
        tree::leaves(&self.class)
    }
    fn default_class(&self) -> Option<&str> {
        self.default.as_ref().map(|name| name.value.as_str())
    }
    fn line(&self) -> Option<Rate> {
        Some(self.link.value)
    }
    fn build<P: Packet + 'static>(&self, site: &Site) -> Box<dyn Qdisc<P>> {
        Box::new(self.tree(site).expect("checked"))
    }
}
