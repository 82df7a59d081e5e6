//! Tests of the protocol and of its generated page.

mod protocol;
