//! The form of a message: one JSON object in one line of at most [`LONGEST`] bytes.
//!
//! | direction | message |
//! | --- | --- |
//! | to the daemon | `{"id": 1, "version": 1, "call": "status", "with": {...}}` |
//! | answer | `{"id": 1, "ok": {...}}` or `{"id": 1, "error": {"code": "...", "message": "...", "help": "..."}}` |
//! | push | `{"subscription": 2, "event": {...}}` or `{"subscription": 2, "lost": 7}` |
//!
//! Answers come in the order of the requests; pushes come between them. `id` is the client's and comes back as it was.
//! `with` may be left out where a call needs nothing. A key that a call does not know is refused, so that a typing error
//! is not taken for consent; a client ignores keys that it does not know, so that answers can grow.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::calls::Permission;

/// The version of the protocol. It changes when a request changes its meaning, not when something is added.
pub const VERSION: u32 = 1;
/// The longest line in bytes, the newline included, in both directions of the socket for one message to the daemon, and
/// for one push. Answers may be longer.
pub const LONGEST: usize = 64 << 10;

/// What can be asked: the parameters of a call, with its name and what is answered.
pub trait Call: Serialize + DeserializeOwned {
    /// The name of the call in a request.
    const NAME: &'static str;
    /// The users that may make it.
    const PERMISSION: Permission;
    /// The answer.
    type Reply: Serialize + DeserializeOwned;
}

/// A request as it stands in its line, with the parameters not yet understood.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The client's number for it; comes back in the answer.
    pub id: u64,
    /// [`VERSION`].
    pub version: u32,
    /// The name of the call.
    pub call: String,
    /// Its parameters; an object.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub with: Value,
}

impl Request {
    /// A request for `call`.
    pub fn new<C: Call>(id: u64, call: &C) -> Self {
        let with = serde_json::to_value(call).unwrap_or_default();
        Self { id, version: VERSION, call: C::NAME.into(), with }
    }

    /// Reads a line, without its newline.
    ///
    /// # Errors
    /// [`Code::Malformed`] or [`Code::Version`]; with the number of the request where that could be read.
    pub fn parse(line: &[u8]) -> Result<Self, (u64, Refusal)> {
        let request: Self = serde_json::from_slice(line).map_err(|error| {
            let id = serde_json::from_slice::<Value>(line).ok().and_then(|value| value.get("id")?.as_u64());
            (id.unwrap_or(0), Refusal::new(Code::Malformed, format!("this is not a request: {error}")).help(FORM))
        })?;
        if request.version != VERSION {
            let text = format!("version {} of the protocol is not spoken here", request.version);
            return Err((request.id, Refusal::new(Code::Version, text).help(format!("speak version {VERSION}"))));
        }
        Ok(request)
    }

    /// The parameters of a call `C`.
    ///
    /// # Errors
    /// [`Code::Malformed`], naming what does not fit.
    pub fn parameters<C: Call>(&self) -> Result<C, Refusal> {
        let with = if self.with.is_null() { Value::Object(Default::default()) } else { self.with.clone() };
        serde_json::from_value(with)
            .map_err(|error| Refusal::new(Code::Malformed, format!("`{}` cannot be asked like this: {error}", C::NAME)))
    }
}

const FORM: &str = "write {\"id\": 1, \"version\": 1, \"call\": \"status\", \"with\": {}} in one line";

/// What kind of refusal it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The message is not what the protocol asks for.
    Malformed,
    /// A version of the protocol that is not spoken here.
    Version,
    /// There is no such call.
    UnknownCall,
    /// The message is longer than [`LONGEST`]; the connection ends.
    TooLong,
    /// Too many clients, or too many things asked for by this one.
    TooMany,
    /// This user may not do this.
    NotAllowed,
    /// What it speaks of does not exist: no such class, flow, process, promise.
    NotFound,
    /// There is not enough left to give; the message says what is free.
    NoRoom,
    /// It is right, and cannot be done here: another discipline, a missing facility.
    Unsupported,
    /// The configuration that was given has errors, or does not fit.
    Invalid,
    /// Something failed in the daemon or the system.
    Failed,
    /// A code of a newer daemon.
    #[serde(other)]
    Other,
}

/// A refusal: what is wrong, and the way out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message}{}", .help.as_ref().map(|help| format!("; {help}")).unwrap_or_default())]
pub struct Refusal {
    /// What kind.
    pub code: Code,
    /// What is wrong.
    pub message: String,
    /// The way out, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Refusal {
    /// Without a way out yet.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: None }
    }
    /// And the way out.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

// Read and written one at a time, never kept in numbers.
#[allow(clippy::large_enum_variant)]
/// What the daemon says: an answer, a push, or how many pushes were lost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "made, written and gone; never many")]
pub enum Message {
    /// It was done.
    Ok {
        /// The number of the request.
        id: u64,
        /// The answer.
        ok: Value,
    },
    /// It was refused. Number 0 where the request could not be read.
    Error {
        /// The number of the request.
        id: u64,
        /// Why.
        error: Refusal,
    },
    /// Something happened.
    Push {
        /// The subscription.
        subscription: u64,
        /// What.
        event: crate::calls::Event,
    },
    /// Pushes that this client did not read in time, and will not get.
    Lost {
        /// The subscription.
        subscription: u64,
        /// How many.
        lost: u64,
    },
}

impl Message {
    /// The answer to request `id`.
    pub fn answer(id: u64, outcome: Result<Value, Refusal>) -> Self {
        match outcome {
            Ok(ok) => Self::Ok { id, ok },
            Err(error) => Self::Error { id, error },
        }
    }
    /// As a line, newline included.
    pub fn to_line(&self) -> Vec<u8> {
        // What is inside was made of strings and numbers, which always can be written.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}
