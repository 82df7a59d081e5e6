//! The form of a message: one JSON object in one line of at most [`LONGEST`] bytes.
//!
//! | direction | message |
//! | --- | --- |
//! | to the daemon | `{"id": 1, "version": 1, "call": "status", "with": {...}}` |
//! | reply | `{"id": 1, "ok": {...}}` or `{"id": 1, "error": {"code": "...", "message": "...", "help": "..."}}` |
//! | notification | `{"subscription": 2, "event": {...}}` or `{"subscription": 2, "lost": 7}` |
//!
//! Replies come in the order of the requests; notifications come between them. `id` is chosen by the client and returned
//! unchanged. `with` is optional where a call needs no parameters. A key that a call does not know is refused, so that a
//! typing error is not taken for consent; a client ignores unknown keys, so that replies can be extended.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::calls::Permission;

/// The version of the protocol. It changes when a request changes its meaning, not when something is added.
pub const VERSION: u32 = 1;
/// The longest request and notification, in bytes with the newline. Replies may be longer.
pub const LONGEST: usize = 64 << 10;
/// The folder of the control sockets. Shapers that may not write there use the folder `tidegate` in `$XDG_RUNTIME_DIR`.
pub const DIRECTORY: &str = "/run/tidegate";
/// How long a connection may take. A daemon that is stopped does not accept any.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the reply to a call may take that does not change the configuration.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the reply to a call may take that changes the configuration, which may start other data paths.
pub const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

/// The parameters of a call, with its name and the type of its reply.
pub trait Call: Serialize + DeserializeOwned {
    /// The name of the call in a request.
    const NAME: &'static str;
    /// The users that may make it.
    const PERMISSION: Permission;
    /// The type of the reply.
    type Reply: Serialize + DeserializeOwned;
}

/// A request whose parameters are not parsed yet.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Chosen by the client; the reply carries it.
    pub id: u64,
    /// [`VERSION`].
    pub version: u32,
    /// The name of the call.
    pub call: String,
    /// The parameters of the call; an object.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub with: Value,
}

impl Request {
    /// Returns a request for `call`.
    pub fn new<C: Call>(id: u64, call: &C) -> Self {
        let with = serde_json::to_value(call).unwrap_or_default();
        Self { id, version: VERSION, call: C::NAME.into(), with }
    }

    /// Parses a line, without its newline.
    ///
    /// # Errors
    /// [`Code::Malformed`] or [`Code::Version`]; with the number of the request where that can be parsed.
    pub fn parse(line: &[u8]) -> Result<Self, (u64, Refusal)> {
        let request: Self = serde_json::from_slice(line).map_err(|error| {
            let id = serde_json::from_slice::<Value>(line).ok().and_then(|value| value.get("id")?.as_u64());
            (id.unwrap_or(0), Refusal::new(Code::Malformed, format!("this is not a request: {error}")).help(FORM))
        })?;
        if request.version != VERSION {
            let text = format!("version {} of the protocol is not supported", request.version);
            return Err((request.id, Refusal::new(Code::Version, text).help(format!("use version {VERSION}"))));
        }
        Ok(request)
    }

    /// Parses the parameters as those of a call `C`.
    ///
    /// # Errors
    /// [`Code::Malformed`], with the key that does not fit.
    pub fn parameters<C: Call>(&self) -> Result<C, Refusal> {
        let with = if self.with.is_null() { Value::Object(Default::default()) } else { self.with.clone() };
        serde_json::from_value(with)
            .map_err(|error| Refusal::new(Code::Malformed, format!("`{}` cannot be asked like this: {error}", C::NAME)))
    }
}

const FORM: &str = "write {\"id\": 1, \"version\": 1, \"call\": \"status\", \"with\": {}} in one line";

/// The kind of a refusal, for programs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The message is not what the protocol specifies.
    Malformed,
    /// Another version of the protocol.
    Version,
    /// There is no such call.
    UnknownCall,
    /// The message is longer than [`LONGEST`]; the connection ends.
    TooLong,
    /// Too many clients, or too many subscriptions or promises of this one.
    TooMany,
    /// This user may not do this.
    NotAllowed,
    /// No such class, flow, process, promise.
    NotFound,
    /// Not enough rate is left; the message states what is free.
    NoRoom,
    /// Not available here: another discipline, a missing facility.
    Unsupported,
    /// The configuration or the parameters have errors, or contradict what is in force.
    Invalid,
    /// Something failed in the daemon or the system.
    Failed,
    /// A code of a newer daemon.
    #[serde(other)]
    Other,
}

/// A refusal: the cause, and the remedy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[error("{message}{}", .help.as_ref().map(|help| format!("; {help}")).unwrap_or_default())]
pub struct Refusal {
    /// For programs.
    pub code: Code,
    /// The cause, for people.
    pub message: String,
    /// The remedy, for people, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl Refusal {
    /// Returns a refusal without a remedy.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: None }
    }
    /// Adds the remedy.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// A message of the daemon: a reply, a notification, or the number of notifications lost.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "made, written and gone; never many")]
pub enum Message {
    /// The reply to a request.
    Ok {
        /// The number of the request.
        id: u64,
        /// The `Reply` of the call.
        ok: Value,
    },
    /// The refusal of a request. Number 0 where that cannot be parsed.
    Error {
        /// The number of the request.
        id: u64,
        /// Why the request was refused.
        error: Refusal,
    },
    /// A notification of a subscription.
    Push {
        /// Number of the subscription.
        subscription: u64,
        /// The event that is reported.
        event: crate::calls::Event,
    },
    /// Notifications that were lost because the client did not read in time.
    Lost {
        /// Number of the subscription.
        subscription: u64,
        /// Their number.
        lost: u64,
    },
}

impl Message {
    /// Returns the reply to request `id`.
    pub fn answer(id: u64, outcome: Result<Value, Refusal>) -> Self {
        match outcome {
            Ok(ok) => Self::Ok { id, ok },
            Err(error) => Self::Error { id, error },
        }
    }
    /// Returns the message as a line, with the newline.
    pub fn to_line(&self) -> Vec<u8> {
        // A message consists of strings and numbers, which can always be written.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}
