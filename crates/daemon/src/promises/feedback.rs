//! `feedback`: subscriptions to everything that happens to some flows.

use tidegate_config::shaper::Root;
use tidegate_control::calls::{Authority, Feedback, FlowState, Watching};
use tidegate_control::protocol::{Code, Refusal};
use tidegate_units::Span;

use super::present::Present;
use super::requests::without_flows;
use super::targets::Selection;
use super::{Promises, Watch, present};
use crate::caller::Caller;
use crate::directions::{ShapedDirection, direction_named};
use crate::notifier::Notifier;
use crate::server::event::{Selector, flow_of};
use crate::telemetry::subscriptions::Subscriptions;

/// The maximum number of watches of one user who is not root, and of those that follow processes or control groups: their
/// sockets are read again and again, and each socket is a condition to look up.
const WATCHES_OF_ONE: usize = 256;
const FOLLOWED_OF_ONE: usize = 16;
/// The maximum number of flows in a reply.
const LISTED: usize = 64;
/// The delay that is reported unless another one is requested.
const DELAY: Span = Span::from_millis(20);

impl Promises {
    /// Answers `feedback`.
    pub fn feedback(
        &mut self,
        directions: &[ShapedDirection],
        subscriptions: &mut Subscriptions,
        notifier: &Notifier,
        caller: &Caller,
        request: Feedback,
    ) -> Result<Watching, Refusal> {
        let index = direction_named(directions, request.direction.as_deref())?;
        let direction = &directions[index];
        subscriptions.check(caller)?;
        let Root::Shaper(_) = &direction.config.root else {
            return Err(without_flows());
        };
        direction.has_flows()?;
        let selection = Selection::of(caller, request.target, false, &mut self.reader)?;
        self.may_watch(caller, &selection)?;
        let subscription = notifier.next_number();
        let matches = selection.matches.clone();
        // Before the engine reviews its flows: what it reports then is not repeated until it changes.
        let selector = Selector::Flows { direction: index, matches: matches.clone(), kinds: request.kinds.clone() };
        notifier.subscribe(caller.client, subscription, selector);
        self.watches.push(Watch {
            subscription,
            uid: caller.peer.uid,
            client: caller.client,
            direction: index,
            selection,
            kinds: request.kinds,
            delay: request.delay.unwrap_or(DELAY).max(Span::from_micros(1)),
        });
        if let Err(refusal) = self.install(directions, notifier, index) {
            notifier.unsubscribe(caller.client, subscription);
            self.watches.pop();
            return Err(refusal);
        }
        subscriptions.add(caller, subscription);
        let names = direction.config.class_names();
        let flows = present::flows(direction, &matches, LISTED)?;
        let state = |(key, fields, state): &Present| FlowState {
            flow: flow_of(*key, Some(fields)),
            class: names.get(state.class.0 as usize).map(ToString::to_string).unwrap_or_default(),
            granted: state.rate,
            minimum: state.minimum,
            promised: state.granted,
        };
        Ok(Watching { subscription, flows: flows.iter().take(LISTED).map(state).collect() })
    }

    /// Refuses a user who is not root and has as many watches as one user may have: every user may watch, and none may
    /// occupy the daemon with it.
    fn may_watch(&self, caller: &Caller, selection: &Selection) -> Result<(), Refusal> {
        let uid = caller.peer.uid;
        let own = || self.watches.iter().filter(|watch| watch.uid == uid).map(|watch| &watch.selection);
        let text = if caller.is_operator() {
            return Ok(());
        } else if selection.follows() && own().filter(|own| own.follows()).count() >= FOLLOWED_OF_ONE {
            format!(
                "user {uid} has {FOLLOWED_OF_ONE} processes and control groups followed already, and may have no more"
            )
        } else if own().count() >= WATCHES_OF_ONE {
            format!("user {uid} has {WATCHES_OF_ONE} subscriptions to feedback already, and can have no more")
        } else {
            return Ok(());
        };
        Err(Refusal::new(Code::TooMany, text)
            .help("end one by `unsubscribe`, or name more flows in one, by ports or a uid"))
    }

    /// Ends the watch of a subscription, if it is one.
    pub fn unwatch(&mut self, directions: &[ShapedDirection], notifier: &Notifier, client: u64, subscription: u64) {
        let watch = self.watches.iter().position(|one| (one.client, one.subscription) == (client, subscription));
        if let Some(place) = watch {
            let index = self.watches.remove(place).direction;
            let _ = self.install(directions, notifier, index);
        }
    }
}
