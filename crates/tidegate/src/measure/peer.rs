//! The peer of a measurement: how it is named, and an address of it that packets reach by the right interface.

use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};

use tidegate_live::rtnl::Rtnl;

use super::{CONNECT, MeasureError};

/// A peer that serves HTTP/1.1, with or without TLS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Whether the peer is spoken to by TLS.
    pub is_secure: bool,
    /// The name or the address, an IPv6 address without brackets.
    pub host: String,
    port: u16,
    path: String,
}

impl Peer {
    /// Reads `http://HOST[:PORT][/PATH]`, `https://HOST[:PORT][/PATH]` or `HOST:PORT`; an IPv6 address is in brackets.
    ///
    /// # Errors
    /// [`MeasureError::Peer`].
    pub fn parse(text: &str) -> Result<Self, MeasureError> {
        let wrong = || MeasureError::Peer(text.into());
        let schemes = [("http://", 80, false), ("https://", 443, true)];
        let found =
            schemes.iter().find_map(|(scheme, port, tls)| Some((text.strip_prefix(scheme)?, Some(*port), *tls)));
        let (rest, default, is_secure) = found.unwrap_or((text, None, false));
        let (authority, path) = rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, path.into()));
        let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((host, port)) => (host, Some(port.parse().map_err(|_| wrong())?)),
            None => (authority, default),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let is_word = |text: &str| !text.chars().any(|c| c.is_whitespace() || c.is_control());
        match port {
            Some(port) if !host.is_empty() && !host.contains('/') && is_word(host) && is_word(&path) => {
                Ok(Self { is_secure, host: host.into(), port, path: format!("/{path}") })
            }
            _ => Err(wrong()),
        }
    }

    /// Returns host and port, as in a URL.
    fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        format!("{host}:{}", self.port)
    }

    /// Returns the head of a request for the file of this peer, with these further lines.
    pub fn request(&self, method: &str, lines: &str) -> String {
        format!(
            "{method} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tidegate\r\nAccept: */*\r\nAccept-Encoding: identity\r\n{lines}\r\n",
            self.path,
            self.authority()
        )
    }

    /// Returns an address of the peer that accepts connections and to which packets leave by `interface`, where one is named.
    ///
    /// # Errors
    /// When no address does; the error is about the last one.
    pub fn reach(&self, interface: Option<&str>) -> Result<SocketAddr, MeasureError> {
        let addresses = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|source| MeasureError::Name { host: self.host.clone(), source })?;
        let mut rtnl = Rtnl::open()?;
        let mut why = MeasureError::Refused(format!("{self}: it has no address"));
        for address in addresses {
            if let Some(interface) = interface {
                let by = match rtnl.route_to(address.ip())? {
                    Some(index) => rtnl.link_by_index(index)?.map_or_else(|| index.to_string(), |link| link.name),
                    None => {
                        why = MeasureError::Refused(format!("{self}: there is no route to {}", address.ip()));
                        continue;
                    }
                };
                if by != interface {
                    why = MeasureError::Elsewhere { peer: address.ip(), interface: interface.into(), by };
                    continue;
                }
            }
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(_) => return Ok(address),
                Err(error) => why = MeasureError::Refused(format!("{self}, {address}: {error}")),
            }
        }
        Err(why)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http{}://{}{}", if self.is_secure { "s" } else { "" }, self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_a_url_or_host_and_port() {
        let read = |text: &str| Peer::parse(text).map(|peer| peer.to_string()).map_err(|error| error.to_string());
        for (text, expected) in [
            ("http://example.net/100mb.bin", "http://example.net:80/100mb.bin"),
            ("http://example.net", "http://example.net:80/"),
            ("https://example.net", "https://example.net:443/"),
            ("https://example.net:8443/a", "https://example.net:8443/a"),
            ("192.0.2.1:8080", "http://192.0.2.1:8080/"),
            ("http://[2001:db8::1]:81/a/b?c", "http://[2001:db8::1]:81/a/b?c"),
            ("http://[2001:db8::1]/", "http://[2001:db8::1]:80/"),
        ] {
            assert_eq!(read(text).unwrap(), expected);
        }
        for wrong in ["", "example.net", "ftp://example.net/x", "http:///x", "host:port", "h:1/a b", "h\r\n:1"] {
            assert!(read(wrong).is_err_and(|why| why.contains("names no peer")), "{wrong}");
        }
    }
}
