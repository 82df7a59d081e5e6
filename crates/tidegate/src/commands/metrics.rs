//! `tidegate metrics`: the files by which Prometheus and Grafana use the metrics.

use std::io::Write;

use clap::ValueEnum;

use crate::Failure;

/// Print the alert rules for Prometheus, or the dashboard for Grafana
///
/// `tidegate run --metrics 127.0.0.1:9435` serves the metrics that both read.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file to print
    #[arg(value_enum, value_name = "WHAT")]
    file: File,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum File {
    /// The rules, for `rule_files` of Prometheus
    Alerts,
    /// The dashboard (JSON), to be imported by Grafana
    Dashboard,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let text = match args.file {
        File::Alerts => include_str!("../../../../packaging/prometheus/alerts.yml"),
        File::Dashboard => include_str!("../../../../packaging/grafana/tidegate.json"),
    };
    Ok(crate::output::stdout().write_all(text.as_bytes())?)
}
