//! Reports: an HTML file that needs no network, plots as SVG, PDF and PNG for papers, and columns for notebooks.
//!
//! The crate does no I/O. It converts a model to text or bytes, which the caller writes. Tables, numbers, plots and
//! colours follow [`tidegate_display`].
//!
//! ```
//! use tidegate_report::{Axis, Curve, Plot, Report, Section, Style};
//!
//! let curves = vec![Curve::new("bulk", [(0.0, 1e6), (1.0, 2e6), (2.0, 2e6)])];
//! let plot = Plot {
//!     title: "Rate of each flow".into(),
//!     x: Axis::new("time", "s"),
//!     y: Axis::new("rate", "bit/s"),
//!     style: Style::Lines,
//!     note: None,
//!     curves,
//! };
//! assert!(plot.svg().starts_with("<svg"));
//! let section = Section::new("Flows").with(plot);
//! let report = Report { title: "A run".into(), sections: vec![section], ..Report::default() };
//! assert!(report.html().contains("<h2>Flows</h2>"));
//! ```

mod bars;
mod boxes;
mod chart;
pub mod columns;
pub mod comparison;
pub mod curves;
pub mod decimate;
mod drawing;
mod figure;
mod font;
mod frame;
mod html;
pub mod judgement;
mod latex;
mod look;
mod model;
mod number;
pub mod palette;
mod paper;
#[cfg(feature = "parquet")]
mod parquet;
mod pdf;
mod plotting;
#[cfg(feature = "png")]
mod png;
mod points;
mod range;
mod readable;
mod roman;
mod ruler;
mod sentence;
pub mod simulation;
mod standing;
mod stated;
pub mod steady;
pub mod swept;
mod tikz;
mod verdict;

pub use chart::{Chart, ChartKind};
pub use drawing::{Drawing, Format};
pub use look::{Form, Heading, Look};
pub use model::{Axis, Band, Curve, Fold, Panels, Part, Plot, Report, Scale, Section, Source, Style};
pub use points::OverPoints;
pub use stated::check_planned;
pub use tidegate_display::{Align, Cell, Column, Mood, Table, escape};
