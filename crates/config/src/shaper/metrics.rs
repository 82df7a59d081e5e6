//! `[metrics]`: where metrics and the web page are served.

use std::net::SocketAddr;

use crate::decode::Spanned;
use crate::diagnostic::Diagnostics;

crate::record! {
    /// Metrics for Prometheus and a web page, over HTTP, read-only. Without this section, and without `--metrics` on
    /// the command line, they are not served.
    pub struct MetricsSection as "metrics" {
        /// The address and port, for example "127.0.0.1:9435". Every client that can connect can read which hosts
        /// communicate.
        pub listen: Spanned<String>,
        /// Whether `listen` may be an address that other machines can reach. Default: no, because they could read all
        /// of that.
        pub anywhere: bool = false,
    }
}

/// Where metrics and the web page are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metrics {
    /// The address and port to listen on.
    pub listen: SocketAddr,
    /// Whether other machines may reach it.
    pub anywhere: bool,
}

pub(super) fn metrics(section: Option<&MetricsSection>, diagnostics: &mut Diagnostics) -> Option<Metrics> {
    let MetricsSection { listen, anywhere } = section?;
    let Ok(address) = listen.value.parse::<SocketAddr>() else {
        diagnostics
            .error(listen.place, format!("`{}` is not an address with a port", listen.value))
            .label("not an IP address, a colon and a port")
            .help("write for example listen = \"127.0.0.1:9435\", or \"[::1]:9435\"");
        return None;
    };
    if !anywhere && !address.ip().to_canonical().is_loopback() {
        diagnostics
            .error(listen.place, format!("{address} can be reached from other machines"))
            .label("every user of the network could read the addresses of all flows")
            .help("write listen = \"127.0.0.1:9435\", or allow it with anywhere = true");
    }
    Some(Metrics { listen: address, anywhere: *anywhere })
}
