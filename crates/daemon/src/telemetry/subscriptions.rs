//! `events` and `unsubscribe`: the subscriptions of each connection.

use std::collections::HashMap;

use tidegate_control::calls::{Events, Subscribed};
use tidegate_control::protocol::{Code, Refusal};

use crate::caller::Caller;
use crate::directions::{ShapedDirection, direction_named};
use crate::notifier::Notifier;
use crate::server::event::Selector;
use crate::server::{SUBSCRIPTIONS, SUBSCRIPTIONS_OF_ONE};

/// The subscriptions to events and feedback, by connection, with its user; those of promises do not count.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(HashMap<u64, (u32, Vec<u64>)>);

impl Subscriptions {
    /// Refuses a connection, or a user who is not root, that has as many subscriptions as it may have.
    ///
    /// # Errors
    /// [`Code::TooMany`].
    pub fn check(&self, caller: &Caller) -> Result<(), Refusal> {
        let uid = caller.peer.uid;
        let of_user: usize = self.0.values().filter(|(user, _)| *user == uid).map(|(_, own)| own.len()).sum();
        if of_user >= SUBSCRIPTIONS_OF_ONE && !caller.peer.is_operator() {
            let text = format!(
                "user {uid} has {SUBSCRIPTIONS_OF_ONE} subscriptions to events and feedback over all connections"
            );
            return Err(
                Refusal::new(Code::TooMany, text).help("end one by `unsubscribe`, or ask for more kinds in one")
            );
        }
        if self.0.get(&caller.client).map_or(0, |(_, own)| own.len()) < SUBSCRIPTIONS {
            return Ok(());
        }
        let text =
            format!("this connection has {SUBSCRIPTIONS} subscriptions to events and feedback, and may have no more");
        Err(Refusal::new(Code::TooMany, text)
            .help("end one by `unsubscribe`, ask for more kinds in one, or open another connection"))
    }

    /// Counts a subscription of the caller.
    pub fn add(&mut self, caller: &Caller, subscription: u64) {
        self.0.entry(caller.client).or_insert_with(|| (caller.peer.uid, Vec::new())).1.push(subscription);
    }
    /// Removes a subscription; returns whether the connection had it.
    pub fn remove(&mut self, client: u64, subscription: u64) -> bool {
        let Some((_, own)) = self.0.get_mut(&client) else { return false };
        let before = own.len();
        own.retain(|id| *id != subscription);
        own.len() < before
    }
    /// The connection has ended.
    pub fn disconnected(&mut self, client: u64) {
        self.0.remove(&client);
    }

    /// Answers `events`.
    pub fn subscribe(
        &mut self,
        directions: &[ShapedDirection],
        notifier: &Notifier,
        caller: &Caller,
        request: Events,
    ) -> Result<Subscribed, Refusal> {
        self.check(caller)?;
        // Classes may be added later; directions may not.
        direction_named(directions, request.direction.as_deref())?;
        let subscription = notifier.next_number();
        self.add(caller, subscription);
        notifier.subscribe(caller.client, subscription, Selector::Events(request));
        Ok(Subscribed { subscription })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Peer;

    #[test]
    fn a_user_has_so_many_over_all_connections() {
        let caller = |client, uid| Caller { client, peer: Peer { uid, pid: 1 } };
        let mut subscriptions = Subscriptions::default();
        let mut number = 0;
        for client in 0.. {
            let caller = caller(client, 4_000_001);
            for _ in 0..SUBSCRIPTIONS {
                if subscriptions.check(&caller).is_ok() {
                    subscriptions.add(&caller, number);
                    number += 1;
                }
            }
            if number as usize == SUBSCRIPTIONS_OF_ONE {
                break;
            }
            assert!(number as usize <= SUBSCRIPTIONS_OF_ONE && subscriptions.check(&caller).is_err(), "{number}");
        }
        let refusal = subscriptions.check(&caller(1_000, 4_000_001)).unwrap_err();
        assert!(refusal.message.contains("4000001 has 512 subscriptions"), "{}", refusal.message);
        // Another user, and root, have their own.
        assert!(subscriptions.check(&caller(1_001, 4_000_002)).is_ok());
        (0..SUBSCRIPTIONS_OF_ONE as u64).for_each(|n| subscriptions.add(&caller(2_000 + n / 16, 0), n));
        assert!(subscriptions.check(&caller(1_002, 0)).is_ok());
        // Subscriptions that have ended no longer count.
        subscriptions.disconnected(0);
        assert!(subscriptions.check(&caller(1_000, 4_000_001)).is_ok());
    }
}
