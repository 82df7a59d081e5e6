//! `events` and `unsubscribe`: the subscriptions of each connection.

use std::collections::HashMap;

use tidegate_control::calls::{Events, Subscribed};
use tidegate_control::protocol::{Code, Refusal};

use crate::caller::Caller;
use crate::directions::{ShapedDirection, direction_named};
use crate::notifier::Notifier;
use crate::server::SUBSCRIPTIONS;
use crate::server::event::Selector;

/// The subscriptions to events and feedback, by connection; those of promises do not count.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(HashMap<u64, Vec<u64>>);

impl Subscriptions {
    /// Refuses a connection that has as many subscriptions as it may have.
    ///
    /// # Errors
    /// [`Code::TooMany`].
    pub fn check(&self, caller: &Caller) -> Result<(), Refusal> {
        if self.0.get(&caller.client).map_or(0, Vec::len) < SUBSCRIPTIONS {
            return Ok(());
        }
        let text =
            format!("this connection has {SUBSCRIPTIONS} subscriptions to events and feedback, and may have no more");
        Err(Refusal::new(Code::TooMany, text)
            .help("end one by `unsubscribe`, ask for more kinds in one, or open another connection"))
    }

    /// Counts a subscription.
    pub fn add(&mut self, client: u64, subscription: u64) {
        self.0.entry(client).or_default().push(subscription);
    }
    /// Removes a subscription; returns whether the connection had it.
    pub fn remove(&mut self, client: u64, subscription: u64) -> bool {
        let Some(own) = self.0.get_mut(&client) else { return false };
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
        self.add(caller.client, subscription);
        notifier.subscribe(caller.client, subscription, Selector::Events(request));
        Ok(Subscribed { subscription })
    }
}
