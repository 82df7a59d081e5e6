//! Outcomes as JSON, so that a run need not be repeated.
//!
//! An outcome that is read is equal to the one that was written: floats of values and curves are stored as their bits.
//! Only a float in a report of a shaper can differ in its last bit, because `serde_json` parses it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value as Json, json};
use tidegate_core::Instant;
use tidegate_metrics::{Curve, Digest, Value};

use super::outcome::{FlowPage, FlowTransfer, Outcome, Report};
use crate::applications::PageLoad;
use crate::metrics::{Transfer, TransferEnd};

/// The ways in which a transfer ends, by their numbers in JSON.
const ENDS: [TransferEnd; 3] = [TransferEnd::Completed, TransferEnd::Aborted, TransferEnd::Cut];

impl Outcome {
    /// Converts the whole outcome to JSON.
    pub fn to_json(&self) -> Json {
        let value =
            |value: &Value| json!([value.variant, value.subject, value.measure, value.unit, value.value.to_bits()]);
        let curve = |curve: &Curve| {
            let points: Vec<u64> =
                curve.points.iter().flat_map(|point| [point.0.to_bits(), point.1.to_bits()]).collect();
            json!([curve.name, curve.variant, curve.subject, curve.measure, curve.part, curve.x, curve.y, points])
        };
        let report = |report: &Report| {
            let Report { time, variant, link, kind, refused, result } = report;
            json!([time.as_nanos(), variant, link, kind, refused, result])
        };
        let transfer = |done: &FlowTransfer| {
            let Transfer { connection, begun_ns, size, time_ns, ideal_ns, end } = done.transfer;
            json!([done.variant, done.flow, begun_ns, size, time_ns, ideal_ns, end as u8, connection])
        };
        let page = |done: &FlowPage| {
            let PageLoad { begun_ns, load_ns, finished } = done.page;
            json!([done.variant, done.flow, begun_ns, load_ns, finished])
        };
        json!({
            "seed": self.seed,
            "events": self.events,
            "digest": self.digest.to_string(),
            "values": self.values.iter().map(value).collect::<Vec<_>>(),
            "curves": self.curves.iter().map(curve).collect::<Vec<_>>(),
            "reports": self.reports.iter().map(report).collect::<Vec<_>>(),
            "transfers": self.transfers.iter().map(transfer).collect::<Vec<_>>(),
            "pages": self.pages.iter().map(page).collect::<Vec<_>>(),
        })
    }

    /// Reads the JSON that [`Outcome::to_json`] created; `None` for anything else.
    pub fn from_json(json: &Json) -> Option<Self> {
        let text = |json: &Json| json.as_str().map(str::to_owned);
        let word = |json: &Json| json.as_str().map(interned);
        let float = |json: &Json| json.as_u64().map(f64::from_bits);
        let value = |json: &Json| {
            Some(Value {
                variant: text(&json[0])?,
                subject: text(&json[1])?,
                measure: text(&json[2])?,
                unit: word(&json[3])?,
                value: float(&json[4])?,
            })
        };
        let curve = |json: &Json| {
            let numbers = json[7].as_array()?.iter().map(float).collect::<Option<Vec<_>>>()?;
            Some(Curve {
                name: text(&json[0])?,
                variant: text(&json[1])?,
                subject: text(&json[2])?,
                measure: word(&json[3])?,
                part: text(&json[4])?,
                x: word(&json[5])?,
                y: word(&json[6])?,
                points: numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
            })
        };
        let report = |json: &Json| {
            Some(Report {
                time: Instant::from_nanos(json[0].as_u64()?),
                variant: text(&json[1])?,
                link: text(&json[2])?,
                kind: word(&json[3])?,
                refused: json[4].as_bool()?,
                result: json[5].clone(),
            })
        };
        let transfer = |json: &Json| {
            Some(FlowTransfer {
                variant: text(&json[0])?,
                flow: text(&json[1])?,
                transfer: Transfer {
                    begun_ns: json[2].as_u64()?,
                    size: json[3].as_u64()?,
                    time_ns: json[4].as_u64()?,
                    ideal_ns: json[5].as_u64()?,
                    end: *ENDS.iter().find(|end| Some(**end as u64) == json[6].as_u64())?,
                    connection: json[7].as_u64()?,
                },
            })
        };
        let page = |json: &Json| {
            Some(FlowPage {
                variant: text(&json[0])?,
                flow: text(&json[1])?,
                page: PageLoad {
                    begun_ns: json[2].as_u64()?,
                    load_ns: json[3].as_u64()?,
                    finished: json[4].as_bool()?,
                },
            })
        };
        Some(Self {
            seed: json["seed"].as_u64()?,
            events: json["events"].as_u64()?,
            digest: Digest::from_hex(json["digest"].as_str()?)?,
            values: json["values"].as_array()?.iter().map(value).collect::<Option<_>>()?,
            curves: json["curves"].as_array()?.iter().map(curve).collect::<Option<_>>()?,
            reports: json["reports"].as_array()?.iter().map(report).collect::<Option<_>>()?,
            transfers: json["transfers"].as_array()?.iter().map(transfer).collect::<Option<_>>()?,
            pages: json["pages"].as_array()?.iter().map(page).collect::<Option<_>>()?,
        })
    }
}

/// Interned names of units and measures, of which there are a few dozen.
static WORDS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

fn interned(word: &str) -> &'static str {
    let mut words = WORDS.lock().unwrap_or_else(PoisonError::into_inner);
    match words.get(word) {
        Some(known) => known,
        None => {
            let new: &'static str = Box::leak(word.to_owned().into_boxed_str());
            words.insert(new);
            new
        }
    }
}
