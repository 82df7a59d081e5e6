//! `tidegate varlink`: the calls of the control socket as an interface of Varlink.
//!
//! Varlink's clients start a service for one connection (`exec:` of varlinkctl, `--bridge` of the reference's), and so does this:
//! it runs as the user who calls, and makes its calls over a connection of its own to the control socket. So that socket knows the
//! user, and its permissions, limits and turns hold for both.
//! *Source*: <https://varlink.org/Service> and *Method-Call*; sd_listen_fds(3).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::dup;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_control::calls::{CALLS, capitals};
use tidegate_control::{Client, ClientError, Pushed, VARLINK};

use super::connect::Connect;
use crate::Failure;

/// The interface of all services.
const SERVICE: &str = "org.varlink.service";
/// Ours.
const CONTROL: &str = "invalid.tidegate.Control";
const SERVICE_DESCRIPTION: &str = "\
# Information about a service.
interface org.varlink.service

method GetInfo() -> (vendor: string, product: string, version: string, url: string, interfaces: []string)
method GetInterfaceDescription(interface: string) -> (description: string)

error InterfaceNotFound(interface: string)
error MethodNotFound(method: string)
error MethodNotImplemented(method: string)
error InvalidParameter(parameter: string)
";
/// The key of what a reservation matches, whose value is a list of pairs in the calls: Varlink has no lists of lists.
const MATCHES: &str = "matches";
/// The longest call, in bytes.
const LONGEST: u64 = 64 << 10;
/// How soon the end of the connection is noticed while there are no events.
const LOOK: Duration = Duration::from_millis(200);

/// Offer the calls of the control socket to a client of Varlink, for one connection
///
/// `varlinkctl call exec:tidegate-varlink invalid.tidegate.Control.Status '{}'`, with a link of that name to this command, or
/// `varlink --bridge "tidegate varlink" call ...`. The connection is standard input and output, or the socket that a service manager
/// passes. `--describe` prints the interface.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    connect: Connect,
    /// Print the description of the interface, and end
    #[arg(long)]
    describe: bool,
}

/// A call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    method: String,
    #[serde(default)]
    parameters: Value,
    #[serde(default)]
    more: bool,
    #[serde(default)]
    oneway: bool,
    #[serde(default)]
    upgrade: bool,
}

/// Why a call has no reply: the name of the error, and its parameters.
struct Wrong(String, Value);

impl Wrong {
    fn of_service(name: &str, parameters: Value) -> Self {
        Self(format!("{SERVICE}.{name}"), parameters)
    }
    fn refused(error: &ClientError) -> Self {
        let parameters = match error {
            ClientError::Refused(refusal) => {
                json!({ "code": refusal.code, "message": refusal.message, "help": refusal.help })
            }
            other => json!({ "code": "failed", "message": other.to_string() }),
        };
        Self(format!("{CONTROL}.Refused"), from_call(parameters))
    }
}

/// Serves one connection until its end.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.describe {
        return Ok(io::stdout().write_all(VARLINK.as_bytes())?);
    }
    let (input, output) = connection()?;
    let mut session = Session { connect: &args.connect, client: None, input: BufReader::new(input), output };
    loop {
        let mut message = Vec::new();
        (&mut session.input).take(LONGEST + 1).read_until(0, &mut message)?;
        match message.pop() {
            None => return Ok(()),
            Some(0) => session.answer(&message)?,
            Some(_) if message.len() as u64 >= LONGEST => {
                return Err(Failure::Failed(format!("a call has more than {} KiB", LONGEST >> 10)));
            }
            Some(_) => return Err(Failure::Failed("the connection ended within a call".into())),
        }
    }
}

/// The connection: a socket that was passed as sd_listen_fds(3) has it, or standard input and output.
fn connection() -> io::Result<(File, File)> {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("LISTEN_FDS", "1") && is("LISTEN_PID", &std::process::id().to_string()) {
        // The first one has number 3. A copy of it belongs to this process alone, whoever owns the number.
        let own = pidfd_open(getpid(), PidfdFlags::empty())?;
        let socket = pidfd_getfd(own, 3, PidfdGetfdFlags::empty())?;
        return Ok((dup(&socket)?.into(), socket.into()));
    }
    Ok((dup(io::stdin().as_fd())?.into(), dup(io::stdout().as_fd())?.into()))
}

/// A connection, and that to the daemon, which is made by the first call that needs it.
struct Session<'a> {
    connect: &'a Connect,
    client: Option<Client>,
    input: BufReader<File>,
    output: File,
}

impl Session<'_> {
    fn answer(&mut self, message: &[u8]) -> io::Result<()> {
        let call: Call = match serde_json::from_slice(message) {
            Ok(call) => call,
            // Nothing tells where the next one would begin, if this is not even a call.
            Err(error) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("this is no call of Varlink: {error}")));
            }
        };
        let reply = self.reply(&call);
        if call.oneway {
            return Ok(());
        }
        let parameters = match reply {
            Ok(parameters) => parameters,
            Err(wrong) => return self.refuse(&wrong),
        };
        if !(call.more && call.method == format!("{CONTROL}.Events")) {
            return self.write(&json!({ "parameters": parameters }));
        }
        self.write(&json!({ "parameters": parameters, "continues": true }))?;
        self.follow(parameters["subscription"].as_u64().unwrap_or_default())
    }

    fn refuse(&mut self, Wrong(error, parameters): &Wrong) -> io::Result<()> {
        self.write(&json!({ "error": error, "parameters": parameters }))
    }

    fn write(&mut self, message: &Value) -> io::Result<()> {
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.output.write_all(&bytes)
    }

    fn reply(&mut self, call: &Call) -> Result<Value, Wrong> {
        let (interface, method) = call.method.rsplit_once('.').unwrap_or_default();
        if call.upgrade {
            return Err(Wrong::of_service("MethodNotImplemented", json!({ "method": call.method })));
        }
        match (interface, method) {
            (SERVICE, "GetInfo") => Ok(json!({
                "vendor": "Tidegate", "product": "tidegate", "version": env!("CARGO_PKG_VERSION"), "url": "",
                "interfaces": [SERVICE, CONTROL],
            })),
            (SERVICE, "GetInterfaceDescription") => match call.parameters["interface"].as_str() {
                Some(SERVICE) => Ok(json!({ "description": SERVICE_DESCRIPTION })),
                Some(CONTROL) => Ok(json!({ "description": VARLINK })),
                Some(other) => Err(Wrong::of_service("InterfaceNotFound", json!({ "interface": other }))),
                None => Err(Wrong::of_service("InvalidParameter", json!({ "parameter": "interface" }))),
            },
            (CONTROL, method) => {
                let Some(known) = CALLS.iter().find(|known| capitals(known.name) == method) else {
                    return Err(Wrong::of_service("MethodNotFound", json!({ "method": call.method })));
                };
                let reply = self.client().and_then(|client| {
                    // Varlink's clients write null for what is left out.
                    client
                        .call_named(known.name, to_call(call.parameters.clone()))
                        .map_err(|error| Wrong::refused(&error))
                })?;
                Ok(from_call(reply))
            }
            (SERVICE, _) => Err(Wrong::of_service("MethodNotFound", json!({ "method": call.method }))),
            (other, _) => Err(Wrong::of_service("InterfaceNotFound", json!({ "interface": other }))),
        }
    }

    fn client(&mut self) -> Result<&mut Client, Wrong> {
        match &mut self.client {
            Some(client) => Ok(client),
            none => {
                let opened = self.connect.open().map_err(|failure| {
                    Wrong(format!("{CONTROL}.Refused"), json!({ "code": "failed", "message": failure.to_string() }))
                })?;
                Ok(none.insert(opened))
            }
        }
    }

    /// Passes on the events of a subscription until the connection ends.
    fn follow(&mut self, subscription: u64) -> io::Result<()> {
        loop {
            let Some(client) = &mut self.client else { return Ok(()) };
            let message = match client.next_push(Some(LOOK)) {
                Ok(Some((of, pushed))) if of == subscription => match pushed {
                    Pushed::Event(event) => {
                        json!({ "subscription": of, "event": from_call(serde_json::to_value(event)?) })
                    }
                    Pushed::Lost(lost) => json!({ "subscription": of, "lost": lost }),
                },
                Ok(Some(_)) => continue,
                Ok(None) if self.is_over()? => return Ok(()),
                Ok(None) => continue,
                Err(error) => return self.refuse(&Wrong::refused(&error)),
            };
            self.write(&json!({ "parameters": message, "continues": true }))?;
        }
    }

    /// Whether the other end has closed the connection. A further call waits until then: there is one reply at a time.
    fn is_over(&self) -> io::Result<bool> {
        let file = self.input.get_ref();
        let mut polled = [PollFd::new(file, PollFlags::RDHUP)];
        poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        Ok(polled[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR))
    }
}

/// Parameters of Varlink as those of a call: without the keys that have no value, and a dictionary of what matches as its pairs.
fn to_call(value: Value) -> Value {
    each_member(value, &|key, value| match value {
        Value::Object(pairs) if key == MATCHES => pairs.into_iter().map(|(key, value)| json!([key, value])).collect(),
        value => to_call(value),
    })
}

/// A reply or an event, the other way round.
fn from_call(value: Value) -> Value {
    each_member(value, &|key, value| match value {
        Value::Array(pairs) if key == MATCHES => {
            let pair = |pair: Value| Some((pair.get(0)?.as_str()?.to_owned(), pair.get(1)?.clone()));
            Value::Object(pairs.into_iter().filter_map(pair).collect())
        }
        value => from_call(value),
    })
}

fn each_member(value: Value, change: &dyn Fn(&str, Value) -> Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), change(&key, value))).collect())
        }
        Value::Array(elements) => elements.into_iter().map(|element| each_member(element, change)).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_dictionaries() {
        let of_call = json!({ "matches": [["port", "7000"], ["protocol", "udp"]], "rate_bps": 8 });
        let of_varlink = json!({ "matches": { "port": "7000", "protocol": "udp" }, "rate_bps": 8, "name": null });
        assert_eq!(to_call(of_varlink), of_call);
        let reply = json!({ "reservations": [of_call], "help": null });
        let dictionary = json!({ "port": "7000", "protocol": "udp" });
        assert_eq!(from_call(reply), json!({ "reservations": [{ "matches": dictionary, "rate_bps": 8 }] }));
    }

    #[test]
    fn every_call_is_described() {
        for call in CALLS {
            assert!(VARLINK.contains(&format!("\nmethod {} (", capitals(call.name))), "{}", call.name);
        }
    }
}
