//! `[discipline.reservations]`: classes for flows on request.

use tidegate_core::ClassId;
use tidegate_core::reservation::{Policy, Request, Service};

use super::options::Reservations;
use super::{CbqClass, CbqQueue};
use crate::diagnostic::Diagnostics;
use crate::suggest;

impl Reservations {
    /// Checks a request against what the file allows one flow; the tree checks the rest.
    ///
    /// # Errors
    /// Names the field, the requested value and the bound.
    pub fn admits(&self, request: &Request) -> Result<(), String> {
        let tspec = &request.tspec;
        let above = |what: &str, asked: String, most: String| {
            Err(format!("a {what} of {asked} was asked for, and one reservation may have {most}"))
        };
        let rate = match request.service {
            Service::Guaranteed { rate: Some(rate), .. } => rate.max(tspec.rate),
            _ => tspec.rate,
        };
        match (&self.max_rate, &self.max_peak) {
            (Some(most), _) if rate > most.value => above("rate", rate.to_string(), most.value.to_string()),
            (_, Some(most)) if tspec.peak > most.value => {
                above("peak rate", tspec.peak.to_string(), most.value.to_string())
            }
            _ if tspec.bucket > self.max_bucket.value => {
                above("bucket", tspec.bucket.to_string(), self.max_bucket.value.to_string())
            }
            _ if tspec.min_unit < self.min_unit.value => Err(format!(
                "a minimum policed unit of {} was asked for, and the least here is {}",
                tspec.min_unit, self.min_unit.value
            )),
            _ => match &self.max_packet {
                Some(most) if tspec.max_packet > most.value => {
                    above("largest packet", tspec.max_packet.to_string(), most.value.to_string())
                }
                _ => Ok(()),
            },
        }
    }
}

impl CbqQueue {
    /// The class under which reservations are made, if they are allowed.
    pub fn policy(&self) -> Option<Policy> {
        let section = self.reservations.as_ref()?;
        let new = Policy::new(*self.numbers().get(section.class.value.as_str())?);
        Some(Policy {
            priority: section.priority.value,
            borrow: section.borrow,
            first_id: ClassId(self.first_reserved()),
            max_rate: section.max_rate.as_ref().map(|most| most.value),
            flows: section.flows.value,
            buffer: section.buffer.value,
            lifetime: section.lifetime.value,
            device: section.device.value,
            ..new
        })
    }

    /// The number of the first class of a reservation: always the same, unless there are very many others.
    pub fn first_reserved(&self) -> u32 {
        Policy::new(self.root()).first_id.0.max(self.root().0 + 1)
    }

    pub(super) fn check_reservations(&self, names: &[&str], diagnostics: &mut Diagnostics) {
        let Some(section) = &self.reservations else { return };
        let class = &section.class;
        if !names.contains(&class.value.as_str()) {
            diagnostics
                .error(class.place, format!("no class is called `{}`", class.value))
                .label("not a class")
                .help(suggest::help(&class.value, names));
            return;
        }
        let parent = |other: &CbqClass| other.parent.as_ref().is_some_and(|parent| parent.value == class.value);
        if let Some(child) = self.class.iter().find(|other| parent(other)) {
            diagnostics
                .error(class.place, format!("class `{}` has classes of its own", class.value))
                .label("only reservations may be under it")
                .related(child.name.place, "such as this")
                .help("make a class for reservations alone");
            return;
        }
        let wrong = match self.policy().map(|policy| policy.validate()) {
            Some(Err(error)) => Some((error.field, error.to_string())),
            _ if section.max_packet.as_ref().is_some_and(|most| most.value > self.mtu.value) => {
                Some(("max_packet", "packets above `mtu` do not fit the link".to_owned()))
            }
            _ => None,
        };
        let Some((field, message)) = wrong else {
            let priority = section.priority.value;
            if priority > 0 {
                diagnostics
                    .warning(
                        section.priority.place,
                        format!(
                            "no delay is bounded for reservations of priority {priority}: who asks for one is refused"
                        ),
                    )
                    .label("delays are bounded with priority 0 only")
                    .help("leave `priority` out, unless rates alone are to be reserved");
            }
            return;
        };
        let place = match field {
            "priority" => section.priority.place,
            "flows" => section.flows.place,
            "lifetime" => section.lifetime.place,
            "max_packet" => section.max_packet.as_ref().map_or(section.place, |most| most.place),
            _ => section.place,
        };
        diagnostics.error(place, message).label("cannot work");
    }
}
