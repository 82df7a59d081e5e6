//! Tests of the protocol, of its generated page, and of the generated parts of the clients in other languages.

mod clients;
mod protocol;
