// Code generated from crates/control/src/protocol.rs and calls; DO NOT EDIT.

package tidegate

import "time"

const (
	// The version of the protocol. It changes when a request changes its meaning, not when something is added.
	Version = 1

	// The longest request and notification, in bytes with the newline. Replies may be longer.
	Longest = 65536

	// The folder of the control sockets. Shapers that may not write there use the folder tidegate in $XDG_RUNTIME_DIR.
	Directory = "/run/tidegate"

	// How long a connection may take. A daemon that is stopped does not accept any.
	ConnectTimeout = 2 * time.Second

	// How long the reply to a call may take that does not change the configuration.
	ReplyTimeout = 10 * time.Second

	// How long the reply to a call may take that changes the configuration, which may start other data paths.
	ChangeTimeout = 60 * time.Second

	// The protocol of a target or a flow: TCP.
	ProtocolTCP Protocol = 6

	// The protocol of a target or a flow: UDP.
	ProtocolUDP Protocol = 17

	// A kilobit a second, in bit/s.
	Kbit = 1000

	// A megabit a second, in bit/s.
	Mbit = 1000000

	// A gigabit a second, in bit/s.
	Gbit = 1000000000
)

// The kind of a refusal, for programs.
type Code string

const (
	// The message is not what the protocol specifies.
	CodeMalformed Code = "malformed"

	// Another version of the protocol.
	CodeVersion Code = "version"

	// There is no such call.
	CodeUnknownCall Code = "unknown-call"

	// The message is longer than the longest request; the connection ends.
	CodeTooLong Code = "too-long"

	// Too many clients, or too many subscriptions or promises of this one.
	CodeTooMany Code = "too-many"

	// This user may not do this.
	CodeNotAllowed Code = "not-allowed"

	// No such class, flow, process, promise.
	CodeNotFound Code = "not-found"

	// Not enough rate is left; the message states what is free.
	CodeNoRoom Code = "no-room"

	// Not available here: another discipline, a missing facility.
	CodeUnsupported Code = "unsupported"

	// The configuration or the parameters have errors, or contradict what is in force.
	CodeInvalid Code = "invalid"

	// Something failed in the daemon or the system.
	CodeFailed Code = "failed"
)
