//! [`Turns`]: the order in which requests of several users reach the daemon.
//!
//! *Law*: at most [`AT_ONCE`] requests are with the daemon. Requests of operators precede those of other users; among those
//! users each has a turn of one request. So a request of an operator waits for at most [`AT_ONCE`] others, and one of
//! another user for one request of each user, however many connections a user has.
//! *Notes*: requests of one user keep their order, over all connections; so does the end of a connection among them.

use std::collections::VecDeque;

use super::Inbound;
use crate::caller::Peer;

/// Requests that are with the daemon at the same time: one in progress, and one so that it need not wait for the next.
const AT_ONCE: usize = 2;

/// Requests that are not with the daemon yet.
#[derive(Debug, Default)]
pub(super) struct Turns {
    operators: VecDeque<Inbound>,
    /// Users with requests, the next turn first.
    users: VecDeque<(u32, VecDeque<Inbound>)>,
    /// Requests that are with the daemon.
    handed_over: usize,
}

impl Turns {
    /// Adds a request, or the end of a connection, of `peer`.
    pub fn add(&mut self, peer: Peer, inbound: Inbound) {
        if peer.is_operator() {
            self.operators.push_back(inbound);
            return;
        }
        match self.users.iter_mut().find(|(uid, _)| *uid == peer.uid) {
            Some((_, queue)) => queue.push_back(inbound),
            None => self.users.push_back((peer.uid, VecDeque::from([inbound]))),
        }
    }

    /// A request was answered.
    pub fn answered(&mut self) {
        self.handed_over = self.handed_over.saturating_sub(1);
    }

    /// Returns what the daemon is to handle next, if it may have more.
    pub fn next(&mut self) -> Option<Inbound> {
        if self.handed_over >= AT_ONCE {
            return None;
        }
        let inbound = self.operators.pop_front().or_else(|| {
            let (uid, mut queue) = self.users.pop_front()?;
            let inbound = queue.pop_front();
            if !queue.is_empty() {
                self.users.push_back((uid, queue));
            }
            inbound
        })?;
        // The end of a connection needs no reply.
        self.handed_over += usize::from(matches!(inbound, Inbound::Request { .. }));
        Some(inbound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_control::calls::StatusQuery;
    use tidegate_control::protocol::Request;

    fn add(turns: &mut Turns, uid: u32, client: u64) {
        let peer = Peer { uid, pid: 1 };
        turns.add(peer, Inbound::Request { client, peer, request: Request::new(1, &StatusQuery {}) });
    }

    /// The clients in the order in which the daemon handles them, one after the other.
    fn order(turns: &mut Turns) -> Vec<u64> {
        let mut order = Vec::new();
        while let Some(inbound) = turns.next() {
            match inbound {
                Inbound::Request { client, .. } => {
                    order.push(client);
                    turns.answered();
                }
                Inbound::Gone { client } => order.push(1_000 + client),
                Inbound::FlowBegan => unreachable!("never queued"),
            }
        }
        order
    }

    #[test]
    fn users_take_turns_and_root_comes_first() {
        let mut turns = Turns::default();
        for client in 0..4 {
            add(&mut turns, 4_000_001, client);
        }
        add(&mut turns, 4_000_002, 10);
        add(&mut turns, 4_000_002, 11);
        add(&mut turns, 4_000_003, 20);
        add(&mut turns, 0, 100);
        assert_eq!(order(&mut turns), [100, 0, 10, 20, 1, 11, 2, 3]);
    }

    #[test]
    fn the_daemon_has_a_few_requests_at_a_time() {
        let mut turns = Turns::default();
        for client in 0..5 {
            add(&mut turns, 4_000_001, client);
        }
        assert_eq!(std::iter::from_fn(|| turns.next()).count(), AT_ONCE);
        // A request of root waits for those alone.
        add(&mut turns, 0, 100);
        assert!(turns.next().is_none());
        turns.answered();
        assert!(matches!(turns.next(), Some(Inbound::Request { client: 100, .. })));
        assert!(turns.next().is_none());
    }

    #[test]
    fn the_end_of_a_connection_follows_its_requests_and_needs_no_reply() {
        let (mut turns, peer) = (Turns::default(), Peer { uid: 4_000_001, pid: 1 });
        add(&mut turns, peer.uid, 1);
        turns.add(peer, Inbound::Gone { client: 1 });
        add(&mut turns, peer.uid, 2);
        assert_eq!(order(&mut turns), [1, 1_001, 2]);
    }
}
