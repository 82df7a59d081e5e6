//! Tests of recordings and of captures.

mod captures;
mod conditions;
mod recording;
