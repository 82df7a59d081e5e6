//! A connection to a peer, plain or by TLS, and the heads of HTTP/1.1 that pass over it.

use std::fmt::Display;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::peer::Peer;
use super::{CONNECT, LOOK, MeasureError, SILENCE};

/// The longest head of a response.
const HEAD: usize = 16 << 10;

/// Whom a client believes about who a server is.
#[derive(Clone, Debug)]
pub struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Trusts the authorities whose certificates are in `file` (PEM), or those of the system, which `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR` override. For a peer without TLS nothing is read.
    ///
    /// # Errors
    /// When there is no certificate, or one cannot be read.
    pub fn of(peer: &Peer, file: Option<&Path>) -> Result<Option<Self>, MeasureError> {
        if !peer.is_secure {
            return Ok(None);
        }
        let mut roots = RootCertStore::empty();
        match file {
            Some(file) => {
                let wrong = |why: &dyn Display| MeasureError::Authorities(format!("{}: {why}", file.display()));
                for certificate in CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))? {
                    let certificate = certificate.map_err(|error| wrong(&error))?;
                    roots.add(certificate).map_err(|error| wrong(&error))?;
                }
                if roots.is_empty() {
                    return Err(wrong(&"there is no certificate in it"));
                }
            }
            None => {
                let found = rustls_native_certs::load_native_certs();
                roots.add_parsable_certificates(found.certs);
                if roots.is_empty() {
                    let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
                    let text = format!("no authorities are installed{why}: install the package ca-certificates");
                    return Err(MeasureError::Authorities(text));
                }
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| MeasureError::Authorities(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Tickets would make later handshakes shorter than those of new visitors, which are to be measured.
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Some(Self(Arc::new(config))))
    }
}

/// A connection.
pub enum Connection {
    Plain(TcpStream),
    Secure(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// A connection that is open, and how long its handshakes took.
pub struct Opened {
    /// The connection. Reading and writing pause after [`LOOK`].
    pub connection: Connection,
    /// The handshake of TCP.
    pub tcp: Duration,
    /// The handshake of TLS, divided by its round trips: one of TLS 1.3, two of TLS 1.2.
    pub tls: Option<Duration>,
}

impl Connection {
    /// Opens a connection to `address`.
    ///
    /// # Errors
    /// A text for people.
    pub fn open(peer: &Peer, address: SocketAddr, trust: Option<&Trust>) -> Result<Opened, String> {
        let began = Clock::now();
        let stream = TcpStream::connect_timeout(&address, CONNECT).map_err(text)?;
        let tcp = began.elapsed();
        stream.set_read_timeout(Some(LOOK)).and_then(|()| stream.set_write_timeout(Some(LOOK))).map_err(text)?;
        stream.set_nodelay(true).map_err(text)?;
        let Some(trust) = trust else {
            return Ok(Opened { connection: Self::Plain(stream), tcp, tls: None });
        };
        let name = ServerName::try_from(peer.host.clone()).map_err(text)?;
        let client = ClientConnection::new(Arc::clone(&trust.0), name).map_err(text)?;
        let mut stream = StreamOwned::new(client, stream);
        let began = Clock::now();
        while stream.conn.is_handshaking() {
            match stream.conn.complete_io(&mut stream.sock) {
                Ok(_) => {}
                Err(error) if is_pause(&error) && began.elapsed() < SILENCE => {}
                Err(error) => return Err(format!("TLS: {error}{}", advice(&error))),
            }
        }
        let is_older = stream.conn.protocol_version() == Some(rustls::ProtocolVersion::TLSv1_2);
        let tls = Some(began.elapsed() / if is_older { 2 } else { 1 });
        Ok(Opened { connection: Self::Secure(Box::new(stream)), tcp, tls })
    }

    /// Returns the socket.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Secure(stream) => &stream.sock,
        }
    }

    /// Sends all of `bytes`, within [`SILENCE`].
    ///
    /// # Errors
    /// A text for people.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (mut sent, began) = (0, Clock::now());
        while sent < bytes.len() {
            match self.write(&bytes[sent..]) {
                Ok(length) => sent += length,
                Err(error) if is_pause(&error) && began.elapsed() < SILENCE => {}
                Err(error) => return Err(text(error)),
            }
        }
        self.flush().or_else(|error| if is_pause(&error) { Ok(()) } else { Err(text(error)) })
    }

    /// Reads the head of a response, and returns its code, its first line and the bytes behind it that came with it; `None` when `ended`
    /// says that nobody waits for it any more.
    ///
    /// # Errors
    /// A text for people.
    pub fn head(&mut self, ended: impl Fn() -> bool) -> Result<Option<Head>, String> {
        let (mut bytes, mut buffer, began) = (Vec::new(), [0; 4_096], Clock::now());
        loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                let line = String::from_utf8_lossy(&bytes[..end]).lines().next().unwrap_or_default().to_owned();
                let code = line.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
                return Ok(Some(Head { code, line, rest: bytes.split_off(end + 4) }));
            }
            if bytes.len() > HEAD {
                return Err("what it answers is not HTTP".into());
            }
            match self.read(&mut buffer) {
                Ok(0) => return Err("it closes the connection without a response".into()),
                Ok(length) => bytes.extend_from_slice(&buffer[..length]),
                Err(error) if is_pause(&error) && began.elapsed() < SILENCE => {
                    if ended() {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(text(error)),
            }
        }
    }
}

/// The head of a response.
#[derive(Debug)]
pub struct Head {
    /// The code; 0 for a line that is not HTTP.
    pub code: u16,
    line: String,
    /// The bytes that came with it.
    pub rest: Vec<u8>,
}

impl Head {
    /// Returns the bytes that came with the head of a success.
    ///
    /// # Errors
    /// A text for people, with the first line of any other response.
    pub fn success(self) -> Result<Vec<u8>, String> {
        match self.code {
            200..300 => Ok(self.rest),
            300..400 => Err(format!("it answers `{}`; name the place that it refers to", self.line)),
            _ => Err(format!("it answers `{}`", self.line)),
        }
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            // A peer that closes without the farewell of TLS has cut a response short, which is no error of a measurement.
            Self::Secure(stream) => match stream.read(buffer) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(0),
                other => other,
            },
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Secure(stream) => stream.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Secure(stream) => stream.flush(),
        }
    }
}

/// Whether an operation only has to be repeated.
pub fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn advice(error: &io::Error) -> &'static str {
    // An authority of the same name with another key gives a bad signature.
    let text = error.to_string();
    if ["UnknownIssuer", "CaUsedAsEndEntity", "BadSignature"].iter().any(|reason| text.contains(reason)) {
        "; name the file with the certificate of its authority by --ca"
    } else {
        ""
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}
