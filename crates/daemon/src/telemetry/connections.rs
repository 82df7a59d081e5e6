//! [`Connections`]: the open connections of the page, and whose they are.

use std::net::IpAddr;

use tidegate_live::peers::{Peer, Peers};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

/// The maximum number of connections.
pub const CONNECTIONS: usize = 64;
/// The maximum number of connections of one client. A browser opens six.
const OF_ONE: usize = 16;

/// Who opened a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Client {
    /// A user of this machine.
    User(u32),
    /// A host, or with IPv6 its network of 64 bits, in which a host may have any number of addresses.
    Host(IpAddr),
}

impl Client {
    /// Who opened a connection; `None` if it has been closed meanwhile.
    pub fn of(stream: &TcpStream, peers: Option<&mut Peers>) -> Option<Self> {
        let (client, server) = (stream.peer_addr().ok()?, stream.local_addr().ok()?);
        match peers.and_then(|peers| peers.peer(client, server).ok()) {
            Some(Peer::User(user)) => Some(Self::User(user)),
            Some(Peer::Closed) => None,
            Some(Peer::Elsewhere) | None => Some(Self::Host(network(client.ip()))),
        }
    }
}

fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
    }
}

/// The open connections, in the order in which they came.
#[derive(Debug, Default)]
pub struct Connections {
    open: Vec<(Client, AbortHandle)>,
}

impl Connections {
    /// Closes the oldest connection of `client` if it has [`OF_ONE`], or of the client with the most if [`CONNECTIONS`] are open.
    pub fn make_room(&mut self, client: Client) {
        self.open.retain(|(_, connection)| !connection.is_finished());
        let number = |of: Client| self.open.iter().filter(|(client, _)| *client == of).count();
        let from = if number(client) >= OF_ONE {
            Some(client)
        } else if self.open.len() >= CONNECTIONS {
            self.open.iter().map(|(client, _)| *client).max_by_key(|client| number(*client))
        } else {
            None
        };
        let oldest = from.and_then(|from| self.open.iter().position(|(client, _)| *client == from));
        if let Some(oldest) = oldest {
            self.open.remove(oldest).1.abort();
        }
    }

    /// Adds a connection, which ends when its task is aborted.
    pub fn add(&mut self, client: Client, task: AbortHandle) {
        self.open.push((client, task));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_opens_many_connections_loses_his_own() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut connections = Connections::default();
            let open = |connections: &mut Connections, client| {
                connections.make_room(client);
                let task = tokio::spawn(std::future::pending::<()>());
                connections.add(client, task.abort_handle());
                task
            };
            let honest: Vec<_> = (0..3).map(|_| open(&mut connections, Client::User(1_000))).collect();
            let of_one: Vec<_> = (0..1_000).map(|_| open(&mut connections, Client::User(1_001))).collect();
            // Several hosts with many connections each.
            for host in 0..10 {
                for _ in 0..100 {
                    drop(open(&mut connections, Client::Host([192, 0, 2, host].into())));
                }
            }
            // The runtime ends aborted tasks some at a time.
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            assert!(honest.iter().all(|task| !task.is_finished()));
            assert!(of_one.iter().filter(|task| !task.is_finished()).count() <= OF_ONE);
            assert!(connections.open.len() <= CONNECTIONS);
        });
    }

    #[test]
    fn a_host_has_one_network_of_ipv6() {
        let same = |a: &str, b: &str| network(a.parse().unwrap()) == network(b.parse().unwrap());
        assert!(same("2001:db8::1", "2001:db8::ffff:1") && !same("2001:db8::1", "2001:db8:0:1::1"));
        assert!(same("::ffff:192.0.2.1", "192.0.2.1") && !same("192.0.2.1", "192.0.2.2"));
    }
}
