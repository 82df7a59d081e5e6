//! [`Web`]: metrics and a page for people, over HTTP on a thread of its own; read-only.
//!
//! | path | content |
//! | --- | --- |
//! | `/` | the page, with `/app.js`, `/charts.js`, `/tables.js`, `/units.js`, `/app.css`, `/theme.css`, `/uplot.js`, `/uplot.css`, `/licence` |
//! | `/metrics` | [`metrics`] |
//! | `/api/now` | the last observation, as `flows` returns it over the control socket |
//! | `/api/history?span=SECONDS&since=SECONDS` | [`History::json`](super::history::History::json), with `notes` ([`Notes::json`](super::notes::Notes::json)) |
//!
//! It listens on loopback unless `anywhere` is specified, and everybody who can connect may read: on a machine with several
//! users, all of them. A page of another site cannot read it: requests must name an address or `localhost` as their host
//! (which refuses DNS rebinding), and nothing is shared across origins. A request whose meaning or length is ambiguous is
//! refused (RFC 9112, 3.2 and 6.3). At most [`CONNECTIONS`] connections are open, 16 of a client: a user of this machine, or an
//! address of another. Where another one comes, the oldest of the client with the most is closed at once, so that who leaves requests
//! unfinished or replies unread takes places from himself alone. A request must be there within 5 s, and no connection lasts longer
//! than a minute and a half.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tidegate_config::shaper::Metrics;
use tidegate_control::calls::{ControlStatus, DirectionObservation, FlowSort, Observation};
use tidegate_control::view::{ClassQuantity, FlowQuantity, Shown, Value as Quantity};
use tidegate_display::assets;
use tidegate_engine::guard::lock;
use tidegate_live::peers::Peers;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

pub use super::connections::CONNECTIONS;
use super::connections::{Client, Connections};
use super::metrics;
use super::observer::Shared;
use super::response::{Answer, asset, data, json, plain};

/// Connections that the kernel keeps until they are accepted. One for which there is no room is tried again by its client, after 1 s.
const WAITING: i32 = 4_096;
/// The time within which a request must be complete.
const HEADERS: Duration = Duration::from_secs(5);
/// The time after which a connection takes no more requests; after [`PATIENCE`] more it is closed.
const LIFE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(30);
/// The maximum number of flows that the page shows.
const FLOWS: usize = 200;

/// The address of metrics and the web page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WebSettings {
    /// Address and port; port 0 for a free one.
    pub address: SocketAddr,
    /// The hosts that may connect.
    pub reach: Reach,
}

impl From<Metrics> for WebSettings {
    fn from(Metrics { listen, anywhere }: Metrics) -> Self {
        Self { address: listen, reach: if anywhere { Reach::Anywhere } else { Reach::Loopback } }
    }
}

/// The hosts that may connect to the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reach {
    /// This machine.
    #[default]
    Loopback,
    /// Every host that the network permits.
    Anywhere,
}

/// Errors of serving metrics and the web page.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The address is not a loopback address, and `anywhere` is not specified.
    #[error(
        "{0} can be reached from other machines, and every user of the network could read the addresses of all flows"
    )]
    NotLoopback(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address that was requested.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread for it: {0}")]
    Thread(io::Error),
}

/// A running server; dropping it ends the server.
#[derive(Debug)]
pub struct Web {
    settings: WebSettings,
    address: SocketAddr,
    served: Arc<Served>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Served {
    shared: Arc<Shared>,
    control: Mutex<ControlStatus>,
}

impl Web {
    /// Listens in the network namespace of the calling thread, and serves the observations of `shared`.
    ///
    /// # Errors
    /// See [`WebError`].
    pub fn start(settings: WebSettings, shared: Arc<Shared>) -> Result<Self, WebError> {
        let address = settings.address;
        if settings.reach == Reach::Loopback && !address.ip().to_canonical().is_loopback() {
            return Err(WebError::NotLoopback(address));
        }
        let listen = |source| WebError::Listen { address, source };
        let listener = std::net::TcpListener::bind(address).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        rustix::net::listen(&listener, WAITING).map_err(|error| listen(error.into()))?;
        // Without it every connection from this machine is of one client.
        let peers = Peers::open().ok();
        let bound = listener.local_addr().map_err(listen)?;
        let served = Arc::new(Served { shared, control: Mutex::default() });
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(WebError::Thread)?;
        let thread = std::thread::Builder::new()
            .name("tidegate-web".into())
            .spawn({
                let served = Arc::clone(&served);
                move || runtime.block_on(serve(listener, peers, served, stopped))
            })
            .map_err(WebError::Thread)?;
        Ok(Self { settings, address: bound, served, stop: Some(stop), thread: Some(thread) })
    }

    /// The settings that it was started with.
    pub(crate) fn settings(&self) -> WebSettings {
        self.settings
    }
    /// The address that it listens on, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the counters of the control socket.
    pub(crate) fn set_control(&self, control: ControlStatus) {
        *lock(&self.served.control) = control;
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(
    listener: std::net::TcpListener,
    mut peers: Option<Peers>,
    served: Arc<Served>,
    mut stopped: oneshot::Receiver<()>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut open = Connections::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stopped => return,
        };
        match accepted {
            Ok((stream, _)) => {
                // One that has been closed meanwhile has no client.
                let Some(client) = Client::of(&stream, peers.as_mut()) else { continue };
                open.make_room(client);
                let connection = tokio::spawn(connection(stream, Arc::clone(&served)));
                open.add(client, connection.abort_handle());
            }
            // Out of descriptors, most likely: wait for connections to end.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn connection(stream: TcpStream, served: Arc<Served>) {
    let service = service_fn(move |request| {
        let response = answer(&request, &served);
        async move { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_headers(64)
        .max_buf_size(16 << 10)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    // Its errors are of no interest: the client closed it, or was too slow.
    if tokio::time::timeout(LIFE, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        let _ = tokio::time::timeout(PATIENCE, connection).await;
    }
}

fn answer<B>(request: &Request<B>, served: &Served) -> Answer {
    if is_ambiguous(request.headers()) {
        let mut response = plain(StatusCode::BAD_REQUEST, "this request is ambiguous\n");
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    // What a proxy is asked for names a host by itself, which counts before that of the header (RFC 9112, section 3.2.2).
    let named = request.uri().authority().map(|authority| authority.as_str());
    let host = named.or_else(|| request.headers().get(header::HOST)?.to_str().ok());
    if !host.is_some_and(is_ours) {
        return plain(StatusCode::MISDIRECTED_REQUEST, "ask for this by an address or as localhost\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "this can only be read\n");
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return response;
    }
    match request.uri().path() {
        "/" => asset("text/html; charset=utf-8", PAGE),
        "/app.js" => asset("text/javascript; charset=utf-8", SCRIPT),
        "/charts.js" => asset("text/javascript; charset=utf-8", CHARTS),
        "/tables.js" => asset("text/javascript; charset=utf-8", TABLES),
        "/units.js" => asset("text/javascript; charset=utf-8", UNITS),
        "/app.css" => asset("text/css; charset=utf-8", STYLE),
        "/theme.css" => asset("text/css; charset=utf-8", assets::THEME_CSS),
        "/uplot.js" => asset("text/javascript; charset=utf-8", assets::UPLOT_JS),
        "/uplot.css" => asset("text/css; charset=utf-8", assets::UPLOT_CSS),
        "/icon.svg" => asset("image/svg+xml", ICON),
        "/licence" => asset("text/plain; charset=utf-8", assets::UPLOT_LICENCE),
        "/metrics" => {
            served.shared.want_flows();
            let control = *lock(&served.control);
            match metrics::text(&served.shared.observation(), &control) {
                Ok(text) => data(metrics::CONTENT_TYPE, text.into()),
                Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the metrics cannot be written\n"),
            }
        }
        "/api/now" => {
            served.shared.want_flows();
            json(&derived(&now(&served.shared.observation())))
        }
        "/api/history" => {
            let number = |name| query(request.uri().query().unwrap_or(""), name).and_then(|text| text.parse().ok());
            let (span, since) = (number("span").unwrap_or(600), number("since").unwrap_or(0));
            // A copy, so that the observer does not wait while it is written.
            let history = served.shared.history().clone();
            let mut history = history.json(span, since);
            history["notes"] = served.shared.notes().json(history["from_s"].as_u64().unwrap_or(0));
            json(&history)
        }
        _ => plain(StatusCode::NOT_FOUND, "there is nothing here; try /\n"),
    }
}

/// Answers the request that a text consists of: a method and a target, then a header field a line. Returns the status, or
/// `None` where the text is no request; for fuzzing.
#[doc(hidden)]
pub fn answer_text(text: &[u8]) -> Option<u16> {
    let mut lines = text.split(|&byte| byte == b'\n');
    let mut first = lines.next()?.splitn(2, |&byte| byte == b' ');
    let mut request = Request::builder().method(first.next()?).uri(first.next()?);
    for line in lines {
        let mut field = line.splitn(2, |&byte| byte == b':');
        request = request.header(field.next()?, field.next()?.trim_ascii());
    }
    let request = request.body(()).ok()?;
    let served = Served { shared: Arc::default(), control: Mutex::default() };
    let answer = answer(&request, &served);
    let hosts: Vec<_> = request.headers().get_all(header::HOST).iter().collect();
    match answer.status() {
        StatusCode::OK => assert!(hosts.len() == 1 && hosts[0].to_str().is_ok_and(is_ours), "served to another host"),
        StatusCode::BAD_REQUEST => assert!(is_ambiguous(request.headers())),
        _ => assert!(answer.headers().contains_key(header::CONTENT_SECURITY_POLICY)),
    }
    Some(answer.status().as_u16())
}

/// The last observation, with as many flows as the page shows, the fastest first.
fn now(observation: &Observation) -> Observation {
    let fastest = |direction: &DirectionObservation| {
        direction.with_flows(direction.top_flows(FlowSort::Rate, FLOWS, |_| true).into_iter().cloned().collect())
    };
    observation.with_directions(observation.directions.iter().map(fastest).collect())
}

/// The observation as JSON, with the quantities of classes and flows that are derived from others and that the page shows.
fn derived(observation: &Observation) -> serde_json::Value {
    let mut value = serde_json::to_value(observation).unwrap_or_default();
    let number = |value| if let Quantity::Packets(packets) = value { packets } else { 0 };
    for (n, direction) in observation.directions.iter().enumerate() {
        let shown = &mut value["directions"][n];
        for (n, class) in direction.classes.iter().enumerate() {
            shown["classes"][n]["dropped_packets"] = number(class.value(ClassQuantity::Dropped)).into();
        }
        for (n, flow) in direction.flows.iter().enumerate() {
            shown["flows"][n]["dropped_packets"] = number(flow.value(FlowQuantity::Dropped)).into();
        }
    }
    value
}

/// Whether a request names several hosts, or may have two lengths: another program on the way may choose the other one.
/// Where both are present hyper ignores `Content-Length`, and no request here needs `Transfer-Encoding`.
fn is_ambiguous(headers: &HeaderMap) -> bool {
    headers.get_all(header::HOST).iter().count() > 1
        || headers.contains_key(header::TRANSFER_ENCODING)
        || headers.get_all(header::CONTENT_LENGTH).iter().count() > 1
}

/// Whether `host` is an address or `localhost`. A page of another site that uses DNS rebinding has the name of that site.
fn is_ours(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !name.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bracketed = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match bracketed {
        Some(address) => matches!(address.parse(), Ok(IpAddr::V6(_))),
        None => name.eq_ignore_ascii_case("localhost") || matches!(name.parse(), Ok(IpAddr::V4(_))),
    }
}

fn query<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

const PAGE: &str = include_str!("../../assets/page.html");
const SCRIPT: &str = include_str!("../../assets/app.js");
const CHARTS: &str = include_str!("../../assets/charts.js");
const TABLES: &str = include_str!("../../assets/tables.js");
const UNITS: &str = include_str!("../../assets/units.js");
const STYLE: &str = include_str!("../../assets/app.css");
const ICON: &str = include_str!("../../assets/icon.svg");

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn the_page_receives_drops_from_the_list_of_quantities() {
        use tidegate_control::calls::{ClassObservation, DropCount, FlowDrops, FlowObservation};
        use tidegate_units::Bytes as Size;
        let drops = |reason: &str, packets| DropCount { reason: reason.into(), packets, bytes: Size::ZERO };
        let class =
            ClassObservation { dropped: vec![drops("aqm", 3), drops("class_limit", 4)], ..ClassObservation::default() };
        let flow = FlowObservation {
            dropped: vec![FlowDrops { reason: "aqm".into(), packets: 2 }],
            ..FlowObservation::default()
        };
        let direction =
            DirectionObservation { classes: vec![class], flows: vec![flow], ..DirectionObservation::default() };
        let shown = derived(&Observation { directions: vec![direction], ..Observation::default() });
        let direction = &shown["directions"][0];
        assert_eq!(
            (&direction["classes"][0]["dropped_packets"], &direction["flows"][0]["dropped_packets"]),
            (&7.into(), &2.into())
        );
        for script in [SCRIPT, CHARTS, TABLES, UNITS] {
            assert!(!script.contains("+ one.packets"), "no script of the page sums drops");
        }
    }

    #[test]
    fn only_addresses_and_localhost_are_ours() {
        for host in ["127.0.0.1:9435", "127.0.0.1", "localhost", "LocalHost:80", "[::1]:9435", "[::1]", "192.0.2.7:1"] {
            assert!(is_ours(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9435",
            "localhost.evil.example",
            "127.0.0.1.evil.example:9435",
            "",
            ":80",
            "[evil]:80",
            "::1",
        ] {
            assert!(!is_ours(host), "{host}");
        }
    }

    #[test]
    fn a_text_is_answered_as_the_request_that_it_is() {
        for (text, status) in [
            ("GET /metrics\nHost: localhost", Some(200)),
            ("GET /api/history?span=5&since=18446744073709551616&span=\nHost: [::1]:80", Some(200)),
            ("GET /\nHost: localhost\nHost: localhost", Some(400)),
            ("GET /\nHost: evil.example", Some(421)),
            ("GET http://evil.example/\nHost: localhost", Some(421)),
            ("GET http://localhost/\nHost: localhost", Some(200)),
            ("POST /\nHost: localhost", Some(405)),
            ("GET /nothing\nHost: localhost", Some(404)),
            ("GET", None),
            ("GET /\nno field", None),
        ] {
            assert_eq!(answer_text(text.as_bytes()), status, "{text}");
        }
    }

    #[test]
    fn other_machines_must_be_asked_for() {
        for address in ["0.0.0.0:0", "192.0.2.1:0", "[::]:0", "[2001:db8::1]:0"] {
            let settings = WebSettings { address: address.parse().unwrap(), reach: Reach::Loopback };
            assert!(matches!(Web::start(settings, Arc::default()), Err(WebError::NotLoopback(_))), "{address}");
        }
    }

    #[test]
    fn those_who_hold_all_places_do_not_hold_its_end() {
        use std::io::{Read, Write};

        let address = "127.0.0.1:0".parse().unwrap();
        let web = Web::start(WebSettings { address, reach: Reach::Loopback }, Arc::default()).unwrap();
        // More replies than all buffers on the way hold, of which only the beginning is read.
        let request = format!("GET /uplot.js HTTP/1.1\r\nHost: {}\r\n\r\n", web.address()).repeat(500);
        let holders = (0..CONNECTIONS).map(|_| {
            let mut stream = std::net::TcpStream::connect(web.address()).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            stream.read_exact(&mut [0]).unwrap();
            stream
        });
        let holders: Vec<_> = holders.collect();
        let began = Instant::now();
        drop(web);
        // They would be cut after 90 s.
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        drop(holders);
    }

    /// Sends a request, and returns the first line of the response.
    fn ask(web: &Web, head: &str) -> String {
        use std::io::{BufRead, BufReader, Write};

        let mut stream = std::net::TcpStream::connect(web.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    }

    #[test]
    fn a_request_with_two_meanings_is_refused() {
        let address = "127.0.0.1:0".parse().unwrap();
        let web = Web::start(WebSettings { address, reach: Reach::Loopback }, Arc::default()).unwrap();
        let get = |headers: &str| ask(&web, &format!("GET /metrics HTTP/1.1\r\n{headers}\r\n"));
        assert!(get("Host: localhost\r\n").contains(" 200 "));
        for wrong in [
            "Host: localhost\r\nHost: localhost\r\n",
            "Host: localhost\r\nHost: evil.example\r\n",
            "Host: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Host: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
            "Host: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
        ] {
            assert!(get(wrong).contains(" 400 "), "{wrong:?}: {}", get(wrong));
        }
    }

    #[test]
    fn readers_that_do_not_read_do_not_exclude_others() {
        use std::io::Write;

        let address = "127.0.0.1:0".parse().unwrap();
        let web = Web::start(WebSettings { address, reach: Reach::Loopback }, Arc::default()).unwrap();
        let request = format!("GET /uplot.js HTTP/1.1\r\nHost: {}\r\n\r\n", web.address()).repeat(500);
        let holders: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let mut stream = std::net::TcpStream::connect(web.address()).unwrap();
                stream.write_all(request.as_bytes()).unwrap();
                stream
            })
            .collect();
        let began = Instant::now();
        assert!(ask(&web, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").contains(" 200 "));
        // They would be closed after 90 s.
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        drop(holders);
    }

    struct Killed(std::process::Child);
    impl Drop for Killed {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// Another user opens connections as fast as he can, and never completes a request.
    #[test]
    fn half_requests_of_another_user_do_not_delay() {
        use std::os::unix::process::CommandExt;
        use std::process::{Command, Stdio};

        const NOBODY: u32 = 65_534;
        if !rustix::process::geteuid().is_root() {
            return println!("SKIP: only root can be two users");
        }
        let address = "127.0.0.1:0".parse().unwrap();
        let web = Web::start(WebSettings { address, reach: Reach::Loopback }, Arc::default()).unwrap();
        let script = format!(
            "while :; do for n in {{1..200}}; do exec {{fd}}<>/dev/tcp/127.0.0.1/{0} && printf 'GET /metrics HT' >&$fd; \
             held[n]=$fd; done; for fd in ${{held[@]}}; do exec {{fd}}>&-; done; done",
            web.address().port()
        );
        let mut hostile = Command::new("bash");
        hostile.args(["-c", &script]).uid(NOBODY).current_dir("/").stderr(Stdio::null());
        let mut hostile: Vec<_> = (0..2).map(|_| Killed(hostile.spawn().unwrap())).collect();
        std::thread::sleep(Duration::from_millis(500));
        let mut times: Vec<Duration> = (0..100)
            .map(|_| {
                let began = Instant::now();
                assert!(ask(&web, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").contains(" 200 "));
                began.elapsed()
            })
            .collect();
        assert!(hostile.iter_mut().all(|one| one.0.try_wait().unwrap().is_none()), "bash goes on");
        times.sort_unstable();
        // A connection that the kernel refused would be tried again after 1 s.
        assert!(times[90] < Duration::from_secs(1), "{times:?}");
    }

    /// Everything that the page loads is served here, and nothing comes from elsewhere.
    #[test]
    fn the_page_is_whole_and_names_no_other_place() {
        let served = ["app.js", "app.css", "theme.css", "uplot.js", "uplot.css", "icon.svg", "licence"];
        let named: Vec<&str> = ["href=\"", "src=\""]
            .iter()
            .flat_map(|key| PAGE.split(key).skip(1))
            .map(|rest| rest.split('"').next().unwrap())
            .collect();
        assert!(named.len() >= served.len(), "{named:?}");
        for name in named {
            assert!(served.contains(&name) || name == "metrics" || name == "#main", "{name}");
        }
        for text in [PAGE, SCRIPT, CHARTS, TABLES, UNITS, STYLE] {
            assert!(!text.contains("://"), "nothing points outside");
            assert!(!text.contains("innerHTML") && !text.contains("eval("), "text stays text");
        }
        assert!(
            !PAGE.contains("<script>") && !PAGE.contains("style=") && !PAGE.contains("onclick"),
            "the policy forbids it"
        );
    }
}
