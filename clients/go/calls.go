// Code generated from the declarations in crates/control/src/calls; DO NOT EDIT.

package tidegate

import (
	"context"
	"encoding/json"
	"net/netip"
	"time"
)

// Returns the state of the shaper and the counts of every class, at most 20 ms old.
//
// The reply has `trouble` while traffic passes unshaped, and `trial_ns` while a change is on trial. `privileges` is what
// the process may do, and is absent where that cannot be read; `obtainable` has capabilities that it lacks and a program
// which it runs could have.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var reply Status
	err := c.call(ctx, "status", nil, &reply, 10*time.Second)
	return reply, err
}

// Returns the measurements of every class, at most a quarter of a second old.
//
// `time_ms` is the time of day in milliseconds since 1970. `up_to` counts the packets that waited at most 16,384 ns,
// twice that, and so on.
func (c *Client) Classes(ctx context.Context) (Observation, error) {
	var reply Observation
	err := c.call(ctx, "classes", nil, &reply, 10*time.Second)
	return reply, err
}

// Returns the measurements of flows, and those of the classes at the same time, at most a quarter of a second old.
//
// `sort` is `rate`, `bytes`, `queue`, `delay`, `drops` or `recent`, the largest first; `limit` is at most 1,000, and 100
// unless it is given; `direction`, `class`, `uid` and `port` filter. A flow has `through`, the class to which it was
// displaced, `rule` and `minimum_bps` where there are.
//
// A direction has `answer`: for each kind of traffic that is sent a grade, and what it is derived from; `basis` is why it was
// taken to be of this kind. `dscp` is the code point at the arrival of the first packet of a flow.
func (c *Client) Flows(ctx context.Context, request Flows) (Observation, error) {
	var reply Observation
	err := c.call(ctx, "flows", request, &reply, 10*time.Second)
	return reply, err
}

// Returns which rule a packet would match, its class and its flow, and the state of their queues and buckets now.
//
// A field that the request leaves out is unknown; addresses come in pairs. `rule` counts from 1 as in the file and
// is absent when none matches; the rules of reservations follow those of the file. Where the shaper knows the flow, and the
// request has no field in which its packets may differ (code point, mark, interface, length, TCP flags, ICMP type), the reply
// has `recorded`: rule and class are those that the last packet of the flow took, which may depend on fields that the request
// does not have. `now` is then what the rules choose at present, if that is something else. `buckets` is present where the root is
// a shaper; a bucket below zero is in debt. `outlook_bps` is the rate at which the flow sends, or would send, while the
// others continue as they are. Nothing queued may leave before `due_ns` from now; it is absent when nothing is queued.
// `seen` is the flow as `flows` returns it, if it is present.
func (c *Client) Explain(ctx context.Context, request Explain) (Explained, error) {
	var reply Explained
	err := c.call(ctx, "explain", request, &reply, 10*time.Second)
	return reply, err
}

// Subscribes to events. Empty filters do not filter.
//
// The reply precedes the first notification. Every notification carries the number of its subscription.
func (c *Client) Events(ctx context.Context, request Events) (Subscribed, error) {
	var reply Subscribed
	err := c.call(ctx, "events", request, &reply, 10*time.Second)
	return reply, err
}

// Returns the last changes and faults, the oldest first: at most 256, of the last day.
//
// They are kept over restarts where the history is. The text of a change has its author, the command and the differences.
func (c *Client) Notes(ctx context.Context, request Notes) (NoteList, error) {
	var reply NoteList
	err := c.call(ctx, "notes", request, &reply, 10*time.Second)
	return reply, err
}

// Ends a subscription of this connection. No notification of it follows the reply.
func (c *Client) Unsubscribe(ctx context.Context, request Unsubscribe) error {
	return c.call(ctx, "unsubscribe", request, nil, 10*time.Second)
}

// Subscribes to everything that happens to some flows, within 5 ms of it: rate, queue thresholds, delay, drops, marks,
// class.
//
// The reply has the flows that are present, at most 64 of them.
func (c *Client) Feedback(ctx context.Context, request Feedback) (Watching, error) {
	var reply Watching
	err := c.call(ctx, "feedback", request, &reply, 10*time.Second)
	return reply, err
}

// Requests a promise for flows: a minimum, preference or displacement.
//
// The promise ends with the connection, unless it is `detached`; in any case when its lease is over. A minimum that does
// not fit is refused with `no-room`, and the message states what is free.
func (c *Client) Promise(ctx context.Context, request PromiseCall) (Promised, error) {
	var reply Promised
	err := c.call(ctx, "promise", request, &reply, 10*time.Second)
	return reply, err
}

// Gives a promise another lease, from now on.
func (c *Client) Renew(ctx context.Context, request Renew) (PromiseState, error) {
	var reply PromiseState
	err := c.call(ctx, "renew", request, &reply, 10*time.Second)
	return reply, err
}

// Ends a promise. The flows under it are again what the configuration specifies.
func (c *Client) Release(ctx context.Context, request Release) error {
	return c.call(ctx, "release", request, nil, 10*time.Second)
}

// Returns all promises, in the order in which they were made.
func (c *Client) Promises(ctx context.Context) (PromiseList, error) {
	var reply PromiseList
	err := c.call(ctx, "promises", nil, &reply, 10*time.Second)
	return reply, err
}

// Requests a class of its own under CBQ for packets that match.
//
// `matches` are keys and values as in a rule; of the rest only `rate_bps` is required. The reservation ends with the
// connection, and before that unless `refresh` renews it within `expires_in_ns`; with `for_ns` it ends after that time,
// and needs neither.
func (c *Client) Reserve(ctx context.Context, request Reserve) (Reserved, error) {
	var reply Reserved
	err := c.call(ctx, "reserve", request, &reply, 10*time.Second)
	return reply, err
}

// Renews a reservation.
func (c *Client) Refresh(ctx context.Context, request Refresh) (Refreshed, error) {
	var reply Refreshed
	err := c.call(ctx, "refresh", request, &reply, 10*time.Second)
	return reply, err
}

// Ends a reservation.
func (c *Client) Unreserve(ctx context.Context, request Unreserve) (Unreserved, error) {
	var reply Unreserved
	err := c.call(ctx, "unreserve", request, &reply, 10*time.Second)
	return reply, err
}

// Returns all reservations, the oldest first.
func (c *Client) Reservations(ctx context.Context) (ReservationList, error) {
	var reply ReservationList
	err := c.call(ctx, "reservations", nil, &reply, 10*time.Second)
	return reply, err
}

// Puts another shaper file in force, or edits of the one in force. No packet is lost or reordered by it.
//
// `text` is a whole file; `edits` change it, or what is in force: `set` (an empty value removes the key), `add` and
// `remove` of a class or a rule. With `dry_run` the differences are only returned. With `confirm_ns` the change is on
// trial: it is taken back after that time, an hour at most, unless `confirm` comes first. Where nothing is different,
// nothing is applied. `in_place` is true where the queues go on as they are; otherwise `rehomed` packets were enqueued
// anew. The `text` of a difference is for people.
func (c *Client) Apply(ctx context.Context, request Apply) (Applied, error) {
	var reply Applied
	err := c.call(ctx, "apply", request, &reply, 60*time.Second)
	return reply, err
}

// Keeps the change on trial.
func (c *Client) Confirm(ctx context.Context) (Confirmed, error) {
	var reply Confirmed
	err := c.call(ctx, "confirm", nil, &reply, 60*time.Second)
	return reply, err
}

// Reverts the change on trial.
func (c *Client) Rollback(ctx context.Context) (Confirmed, error) {
	var reply Confirmed
	err := c.call(ctx, "rollback", nil, &reply, 60*time.Second)
	return reply, err
}

// Takes back the last change that was kept, as a change of its own: without loss or reordering, all directions or none.
//
// The next call takes back the one before. The last 16 changes since the start of the daemon are known; a reload is
// one. `undone` is the change that is taken back.
func (c *Client) Undo(ctx context.Context, request Undo) (Applied, error) {
	var reply Applied
	err := c.call(ctx, "undo", request, &reply, 60*time.Second)
	return reply, err
}

// Returns the text of the shaper file in force: to everybody if every user may read the file, else to operators alone.
func (c *Client) InForce(ctx context.Context, request InForce) (Text, error) {
	var reply Text
	err := c.call(ctx, "in-force", request, &reply, 10*time.Second)
	return reply, err
}

// The answer for one direction.
type Answer struct {
	// The worst grade, where transfers count as fair at worst: they last longer, and nobody is disturbed. Absent where no traffic of a
	// known kind is sent.
	Grade Grade `json:"grade,omitempty"`

	// Each kind of traffic that is sent, calls first.
	Traffic []TrafficAnswer `json:"traffic,omitempty"`

	// The classes in which traffic waits for a ceiling.
	Held []Held `json:"held,omitempty"`

	// How full the line is, in percent of the limit; absent where there is no limit.
	FullPercent *uint64 `json:"full_percent,omitempty"`

	// The host that takes most of it; absent where no hosts were observed.
	Taker *Taker `json:"taker,omitempty"`

	// Why nothing can pass: the interfaces are down or gone; absent while one is up.
	Down string `json:"down,omitempty"`

	// The answer as a sentence.
	Text string `json:"text,omitempty"`
}

// The effects of a change, or of a dry run.
type Applied struct {
	// From the configuration that was in force.
	Differences []Difference `json:"differences"`

	// Warnings about the new file, as text.
	Warnings string `json:"warnings,omitempty"`

	// Whether it was applied; not with `dry_run`, and not where nothing is different.
	Applied bool `json:"applied"`

	// Whether the tree of disciplines was kept, with its queues and the levels of its buckets.
	InPlace bool `json:"in_place,omitempty"`

	// Queued packets that were enqueued in a new tree.
	Rehomed uint64 `json:"rehomed,omitempty"`

	// The numbers of the rules that were added, from 1, in the order of the edits; of both directions those of the first.
	AddedRules []uint32 `json:"added_rules,omitempty"`

	// The change that `undo` took back, or would.
	Undone *Change `json:"undone,omitempty"`
}

// The request `apply`.
type Apply struct {
	// The direction, where more than one is shaped, or `both`. Default: those that the file is for, or the only one that has
	// what is edited; both for a rule that both share.
	Direction string `json:"direction,omitempty"`

	// The whole text of the file. Default: the text in force.
	Text string `json:"text,omitempty"`

	// The path of the file that the text is from, for the log.
	File string `json:"file,omitempty"`

	// Edits of that text, one after the other.
	Edits []Edit `json:"edits,omitempty"`

	// Only check, and return the differences.
	DryRun bool `json:"dry_run,omitempty"`

	// Take the change back unless `confirm` is called within this time.
	Confirm time.Duration `json:"confirm_ns,omitempty"`
}

// Why traffic was taken to be of a kind, the strongest reason first.
type Basis string

const (
	// The name of its class.
	BasisClassName Basis = "class-name"

	// The code point that its sender set.
	BasisCodePoint Basis = "code-point"

	// Its protocol, its port, and the sizes, number and rate of its packets.
	BasisBehaviour Basis = "behaviour"

	// Nothing is known of it.
	BasisNothing Basis = "nothing"
)

// Levels of token buckets, in bytes; below zero a bucket is in debt.
type Buckets struct {
	// Level of the bucket of its class.
	ClassBytes int64 `json:"class_bytes"`

	// Depth of that bucket.
	ClassDepthBytes uint64 `json:"class_depth_bytes"`

	// Level of the bucket of all classes.
	AllBytes int64 `json:"all_bytes"`

	// Depth of that bucket.
	AllDepthBytes uint64 `json:"all_depth_bytes"`

	// Level of the bucket of its class's ceiling, if the class has one.
	CeilingBytes *int64 `json:"ceiling_bytes,omitempty"`

	// Depth of that bucket.
	CeilingDepthBytes *uint64 `json:"ceiling_depth_bytes,omitempty"`
}

// A change of the configuration that was kept: who made it, by which command, and when.
type Change struct {
	// When it was made, in seconds since 1970.
	TimeS uint64 `json:"time_s"`

	// The user of the process that requested it; absent for a reload by a signal.
	UID *uint32 `json:"uid,omitempty"`

	// The user who had logged in, where that is another one, as with `sudo`.
	LoginUID *uint32 `json:"login_uid,omitempty"`

	// Who it was, as text: users with their names, and the process.
	Author string `json:"author"`

	// The command line that makes such a request.
	Command string `json:"command"`
}

// The rule and the class that the rules choose for a packet.
type Choice struct {
	// The rule, by its number as in `Explained`. None where no rule matches.
	Rule *uint32 `json:"rule,omitempty"`

	// The class.
	Class string `json:"class"`
}

// The measurements of a class. Counts are since the start; rates and waits are of the last second.
type ClassObservation struct {
	// The name of the class.
	Name string `json:"name"`

	// Its priority, where its discipline has priorities: classes with a smaller number are served first.
	Priority *uint8 `json:"priority,omitempty"`

	// The rate that the configuration promises to the class.
	PromisedBps uint64 `json:"promised_bps,omitempty"`

	// The rate that could still be promised to flows.
	UnpromisedBps uint64 `json:"unpromised_bps,omitempty"`

	// The ceiling of the class, `at-most`.
	AtMostBps uint64 `json:"at_most_bps,omitempty"`

	// The ceiling of each of its hosts, `host-at-most`.
	HostAtMostBps uint64 `json:"host_at_most_bps,omitempty"`

	// The ceiling of each of its flows, `flow-at-most`.
	FlowAtMostBps uint64 `json:"flow_at_most_bps,omitempty"`

	// Flows present, where its discipline knows flows.
	Flows *uint64 `json:"flows,omitempty"`

	// The rate of packets sent through it.
	RateBps uint64 `json:"rate_bps"`

	// The part of it that was borrowed from other classes.
	BorrowedBps uint64 `json:"borrowed_bps"`

	// Packets that the rules put into it.
	EnqueuedPackets uint64 `json:"enqueued_packets"`

	// Their bytes.
	EnqueuedBytes uint64 `json:"enqueued_bytes"`

	// Packets sent through it, including flows that were displaced to it.
	SentPackets uint64 `json:"sent_packets"`

	// Their bytes.
	SentBytes uint64 `json:"sent_bytes"`

	// Bytes sent on rate borrowed from other classes.
	BorrowedBytes uint64 `json:"borrowed_bytes"`

	QueuePackets uint64 `json:"queue_packets"`

	QueueBytes uint64 `json:"queue_bytes"`

	// The ceiling that all of its packets wait for; none while one may leave.
	HeldBy HeldBy `json:"held_by,omitempty"`

	// Drops by reason; reasons without a drop are absent.
	Dropped []DropCount `json:"dropped"`

	// Packets marked congestion experienced.
	MarkedPackets uint64 `json:"marked_packets"`

	// Packets sent with another code point than they arrived with.
	RemarkedPackets uint64 `json:"remarked_packets"`

	// QUIC datagrams into which a rate was written as advice; absent where there were none.
	AdvisedPackets uint64 `json:"advised_packets,omitempty"`

	// The median.
	WaitP50 time.Duration `json:"wait_p50_ns"`

	// The 90th percentile.
	WaitP90 time.Duration `json:"wait_p90_ns"`

	// The 99th percentile.
	WaitP99 time.Duration `json:"wait_p99_ns"`

	// The longest wait since the start, or since the first packet of the flow.
	WaitLongest time.Duration `json:"wait_longest_ns"`

	// The variation of the wait from packet to packet of a flow (RFC 3550, 6.4.1).
	Jitter time.Duration `json:"jitter_ns"`

	// The distribution of all waits since the start.
	Waits Waits `json:"waits"`

	// The coupled queues of DualPI2; absent where its discipline is another.
	Coupled *CoupledQueues `json:"coupled,omitempty"`

	// Seconds in which the class offered its promised rate or more, and was served it.
	PromiseKeptSeconds uint64 `json:"promise_kept_seconds"`

	// Seconds in which it offered it and was not served it.
	PromiseMissedSeconds uint64 `json:"promise_missed_seconds"`
}

// The counts of a class, since the start.
type ClassStatus struct {
	// The name of the class.
	Name string `json:"name"`

	// The rate that the configuration promises to the class; none where its discipline promises none.
	RateBps uint64 `json:"rate_bps,omitempty"`

	// The rate that could still be promised to flows.
	UnpromisedBps uint64 `json:"unpromised_bps,omitempty"`

	// The ceiling of the class, `at-most`.
	AtMostBps uint64 `json:"at_most_bps,omitempty"`

	// The ceiling of each of its hosts, `host-at-most`.
	HostAtMostBps uint64 `json:"host_at_most_bps,omitempty"`

	// The ceiling of each of its flows, `flow-at-most`.
	FlowAtMostBps uint64 `json:"flow_at_most_bps,omitempty"`

	// Flows present, where its discipline knows flows.
	Flows *uint64 `json:"flows,omitempty"`

	// Packets that the rules put into it.
	EnqueuedPackets uint64 `json:"enqueued_packets"`

	// Their bytes.
	EnqueuedBytes uint64 `json:"enqueued_bytes"`

	// Packets sent through it, including flows that were displaced to it.
	ThroughPackets uint64 `json:"through_packets"`

	// Their bytes.
	ThroughBytes uint64 `json:"through_bytes"`

	QueuePackets uint64 `json:"queue_packets"`

	QueueBytes uint64 `json:"queue_bytes"`

	// The ceiling that all of its packets wait for; none while one may leave.
	HeldBy HeldBy `json:"held_by,omitempty"`

	// Drops by reason; reasons without a drop are absent.
	Dropped []DropCount `json:"dropped"`

	// Packets marked congestion experienced.
	MarkedPackets uint64 `json:"marked_packets"`

	// Packets sent with another code point than they arrived with.
	RemarkedPackets uint64 `json:"remarked_packets"`

	// QUIC datagrams into which a rate was written as advice; absent where there were none.
	AdvisedPackets uint64 `json:"advised_packets,omitempty"`

	// The median wait.
	WaitP50 time.Duration `json:"wait_p50_ns"`

	// The 99th percentile of the waits.
	WaitP99 time.Duration `json:"wait_p99_ns"`

	// The coupled queues of DualPI2; absent where its discipline is another.
	Coupled *CoupledQueues `json:"coupled,omitempty"`
}

// The reply to `confirm` and `rollback`.
type Confirmed struct {
	// The direction that was changed.
	Direction string `json:"direction"`
}

// Counters of the control socket.
type ControlStatus struct {
	// Connections open.
	Clients uint64 `json:"clients"`

	// Subscriptions of all connections.
	Subscriptions uint64 `json:"subscriptions"`

	// Requests received.
	Requests uint64 `json:"requests"`

	// Requests refused.
	Refused uint64 `json:"refused"`

	// Connections refused, or closed because of a limit.
	Cut uint64 `json:"cut"`

	// Notifications sent.
	Pushes uint64 `json:"pushes"`

	// Notifications lost because clients did not read in time.
	Lost uint64 `json:"lost"`
}

// One of the queues of DualPI2.
type CoupledQueue struct {
	QueuePackets uint64 `json:"queue_packets"`

	QueueBytes uint64 `json:"queue_bytes"`

	// The wait of the oldest of them.
	Delay time.Duration `json:"delay_ns"`

	// The mean wait of the packets that were sent: in an observation of the last second, otherwise since the start.
	WaitMean time.Duration `json:"wait_mean_ns"`

	// The sum of the waits of all packets that were sent.
	WaitSum time.Duration `json:"wait_sum_ns"`

	// Packets that were put into it.
	EnqueuedPackets uint64 `json:"enqueued_packets"`

	// Packets sent.
	SentPackets uint64 `json:"sent_packets"`

	// Packets of these that were marked congestion experienced.
	MarkedPackets uint64 `json:"marked_packets"`

	// Packets dropped by a probability.
	DroppedPackets uint64 `json:"dropped_packets"`
}

// The queues of DualPI2 (RFC 9332), with their counts since the start.
type CoupledQueues struct {
	// L: packets of ECT(1), CE and NQB.
	LowLatency CoupledQueue `json:"low_latency"`

	// C: all others.
	Classic CoupledQueue `json:"classic"`

	// Packets of L that queue protection (RFC 9957) lets wait with those of C.
	Sanctioned CoupledQueue `json:"sanctioned"`

	// The coupled probability with which L marks at least, in millionths.
	CoupledPpm uint64 `json:"coupled_ppm"`

	// The probability with which C marks or drops, in millionths.
	ClassicPpm uint64 `json:"classic_ppm"`

	// The flows under sanction now; none of the kernel path, which does not list them.
	Flows []Flow `json:"flows,omitempty"`
}

// Counters of a data path, since the start.
type DataPathCounters struct {
	// Packets that passed.
	PassedPackets uint64 `json:"passed_packets"`

	// Packets that were refused.
	RefusedPackets uint64 `json:"refused_packets"`

	// Superpackets returned to the kernel for segmentation, and packets that had to follow them.
	CutPackets uint64 `json:"cut_packets"`

	// Packets whose headers could not be parsed.
	UnreadablePackets uint64 `json:"unreadable_packets"`

	// Packets that no rule matched.
	UnclassifiedPackets uint64 `json:"unclassified_packets"`

	// Iterations of its loop.
	Turns uint64 `json:"turns"`

	// Processor time.
	Processor time.Duration `json:"processor_ns"`

	// Messages of the kernel that were lost because the socket was full; their packets passed unshaped.
	LostMessages uint64 `json:"lost_messages"`

	// Packets that the kernel dropped while they waited, because a chain of the packet filter, the interface or their route was
	// removed. They count as sent as well.
	KernelDroppedPackets uint64 `json:"kernel_dropped_packets,omitempty"`
}

// A difference between two shaper files in one place.
type Difference struct {
	// The place: `class calls`, `rule`, `shaper`.
	What string `json:"what"`

	// The key; none for the whole of it.
	Key string `json:"key,omitempty"`

	// The value before.
	From string `json:"from,omitempty"`

	// The value after.
	To string `json:"to,omitempty"`

	// The difference in a line, as text.
	Text string `json:"text"`
}

// One direction of the traffic.
type DirectionObservation struct {
	// `up` for egress, `down` for ingress.
	Name string `json:"name"`

	// The configured rate of all classes together; none where nothing limits it.
	LimitBps uint64 `json:"limit_bps,omitempty"`

	// The line, and its use.
	Line LineObservation `json:"line,omitempty"`

	// How well each kind of traffic works, and who takes the line; absent where flows were not requested lately.
	Answer *Answer `json:"answer,omitempty"`

	// In the order of the file.
	Classes []ClassObservation `json:"classes"`

	// The rules of the file with the packets that each has matched, the first `Observation::MOST_RULES` of them.
	Rules []RuleObservation `json:"rules,omitempty"`

	// The rules with a quota, in the order of the file.
	Quotas []QuotaStatus `json:"quotas,omitempty"`

	// The rules that hold at some times only, in the order of the file.
	Times []TimedRuleStatus `json:"times,omitempty"`

	// In the requested order; absent where flows were not requested.
	Flows []FlowObservation `json:"flows,omitempty"`

	// The interfaces whose traffic shares the limit and the classes, in the order of the file.
	Interfaces []InterfaceObservation `json:"interfaces,omitempty"`

	// The state of the flow table.
	Table FlowTableState `json:"table"`

	// The counters of the data path.
	DataPath DataPathCounters `json:"data_path"`

	// The guardian; absent where none was asked for.
	Guardian *GuardianStatus `json:"guardian,omitempty"`

	// The rate that follows the line; absent where the rate is constant.
	Follow *FollowStatus `json:"follow,omitempty"`
}

// One direction of the traffic.
type DirectionStatus struct {
	// `up` for egress, `down` for ingress.
	Name string `json:"name"`

	// The rate of all classes together.
	RateBps uint64 `json:"rate_bps,omitempty"`

	// The interfaces whose traffic shares the rate and the classes, in the order of the file; empty while there is no
	// data path.
	Interfaces []InterfaceStatus `json:"interfaces,omitempty"`

	// Protocols that are not proven to be shaped, because no packet of them has come through yet, each with the reason.
	Unproven []string `json:"unproven,omitempty"`

	// Packets that pass an interface and are not shaped here, because of what is stacked on it or of a flow table, each with the
	// remedy.
	Unshaped []string `json:"unshaped,omitempty"`

	// The rules that hold at some times only, each with whether it holds now and until when.
	TimedRules []string `json:"timed_rules,omitempty"`

	// The rules with a quota, in the order of the file.
	Quotas []QuotaStatus `json:"quotas,omitempty"`

	// The names in rules whose addresses change, in the order of the file.
	Names []NameStatus `json:"names,omitempty"`

	// The discipline in the kernel that queues packets; absent where they are queued in user space.
	InKernel string `json:"in_kernel,omitempty"`

	// Whether the kernel path is being loaded, to which the traffic moves then.
	AwaitsKernel bool `json:"awaits_kernel,omitempty"`

	// Packets that the kernel dropped while they waited, because a chain of the packet filter, the interface or their route was
	// removed. They count as sent as well.
	KernelDroppedPackets uint64 `json:"kernel_dropped_packets,omitempty"`

	// In the order of the file; empty while there is no data path.
	Classes []ClassStatus `json:"classes"`

	// The classes of CBQ in the sharing of the link, inner classes included: the root first, each class before its children.
	// Empty for another discipline.
	SharedClasses []SharedClassStatus `json:"shared_classes,omitempty"`

	// The guardian, which lets packets pass when the shaper cannot; absent where none was asked for.
	Guardian *GuardianStatus `json:"guardian,omitempty"`

	// The rate that follows the line; absent where the rate is constant.
	Follow *FollowStatus `json:"follow,omitempty"`
}

// The threshold and the destination of a displacement.
type Displacement struct {
	// The granted rate below which a flow is displaced; above its minimum.
	BelowBps uint64 `json:"below_bps"`

	// The class that it is displaced to. It returns when its class has the rate.
	To string `json:"to"`
}

// Drops for one reason.
type DropCount struct {
	// Name of a drop reason.
	Reason string `json:"reason"`

	// Number of packets.
	Packets uint64 `json:"packets"`

	// Their bytes.
	Bytes uint64 `json:"bytes"`
}

// An edit of a shaper file.
// It is one of EditSet, EditAdd, EditRemove.
type Edit interface{ isEdit() }

// Sets a key; an empty value removes it.
type EditSet struct {
	// `class`, `rule`, or the name of a table such as `shaper` or `discipline`.
	Section string `json:"section"`

	// The name of the class, or the number of the rule, from 1.
	Name string `json:"name,omitempty"`

	// The key; dots lead into tables.
	Key string `json:"key"`

	// The value, as it would stand in the file; texts need no quotes.
	Value string `json:"value"`
}

func (EditSet) isEdit() {}

// MarshalJSON writes the key by which the kinds are told apart, too.
func (value EditSet) MarshalJSON() ([]byte, error) {
	type plain EditSet
	return json.Marshal(struct {
		Tag string `json:"edit"`
		plain
	}{"set", plain(value)})
}

// Adds a class as the last, or a rule as the first.
type EditAdd struct {
	// `class` or `rule`.
	Section string `json:"section"`

	// Keys and values.
	Values [][2]string `json:"values"`
}

func (EditAdd) isEdit() {}

// MarshalJSON writes the key by which the kinds are told apart, too.
func (value EditAdd) MarshalJSON() ([]byte, error) {
	type plain EditAdd
	return json.Marshal(struct {
		Tag string `json:"edit"`
		plain
	}{"add", plain(value)})
}

// Removes a class or a rule.
type EditRemove struct {
	// `class` or `rule`.
	Section string `json:"section"`

	// The name of the class, or the number of the rule, from 1.
	Name string `json:"name"`
}

func (EditRemove) isEdit() {}

// MarshalJSON writes the key by which the kinds are told apart, too.
func (value EditRemove) MarshalJSON() ([]byte, error) {
	type plain EditRemove
	return json.Marshal(struct {
		Tag string `json:"edit"`
		plain
	}{"remove", plain(value)})
}

// An event. Its kind determines which optional keys are present; a client ignores unknown keys.
type Event struct {
	// Determines the keys that are present.
	Kind EventKind `json:"kind"`

	// The time of the event, by the monotonic clock of the machine.
	Time time.Duration `json:"time_ns"`

	// The direction of the traffic.
	Direction string `json:"direction,omitempty"`

	// The class; of a flow that was moved, the new one.
	Class string `json:"class,omitempty"`

	// The class from which a flow was moved.
	FromClass string `json:"from_class,omitempty"`

	// The flow that the event is about.
	Flow *Flow `json:"flow,omitempty"`

	// The rate that the flow is granted.
	GrantedBps uint64 `json:"granted_bps,omitempty"`

	// The minimum rate of the flow.
	MinimumBps uint64 `json:"minimum_bps,omitempty"`

	// The wait of the oldest packet of the flow.
	Delay time.Duration `json:"delay_ns,omitempty"`

	// Packets of the flow that were dropped, since it began.
	Dropped *uint64 `json:"dropped,omitempty"`

	// Packets of the flow that were marked congestion experienced, since it began.
	Marked *uint64 `json:"marked,omitempty"`

	// The promise that the flow is under, or that ended.
	Promise *uint64 `json:"promise,omitempty"`

	// Bytes of the flow that are queued.
	QueueBytes *uint64 `json:"queue_bytes,omitempty"`

	// A text for display.
	Text string `json:"text,omitempty"`

	// Further data of events of this kind.
	Data json.RawMessage `json:"data,omitempty"`
}

// The kind of an event.
type EventKind string

const (
	// A flow was seen for the first time.
	EventKindFlowStarted EventKind = "flow-started"

	// A flow sent nothing for the idle timeout, and was removed.
	EventKindFlowEnded EventKind = "flow-ended"

	// The queue of a flow rose to its upper threshold.
	EventKindQueueAbove EventKind = "queue-above"

	// The queue of a flow fell to its lower threshold.
	EventKindQueueBelow EventKind = "queue-below"

	// A flow was moved to another class, with its queue.
	EventKindMoved EventKind = "moved"

	// Packets of a flow were marked congestion experienced; reported at most every 100 ms for a flow that is not watched.
	EventKindMarked EventKind = "marked"

	// Queue protection of DualPI2 put a flow of the low-latency queue under sanction; its packets wait with those of the other queue.
	EventKindSanctioned EventKind = "sanctioned"

	// The last packet of a flow that was under sanction has left; the next may wait in the low-latency queue.
	EventKindReleased EventKind = "released"

	// A watched flow is granted another rate.
	EventKindRate EventKind = "rate"

	// Packets of a watched flow were dropped.
	EventKindDropped EventKind = "dropped"

	// The oldest packet of a watched flow has waited longer than the requested limit.
	EventKindDelayAbove EventKind = "delay-above"

	// It has waited less than half of that.
	EventKindDelayBelow EventKind = "delay-below"

	// The minimum of a flow is in force.
	EventKindPromised EventKind = "promised"

	// The minimum of a flow waits for rate to be released.
	EventKindWaiting EventKind = "waiting"

	// A promise ended: its lease was over, or root ended it.
	EventKindPromiseEnded EventKind = "promise-ended"

	// The rate of a direction follows its line to another value (`granted_bps`), for the reason in `text`.
	EventKindLineRate EventKind = "line-rate"

	// A message of the supervisor, as text. A change of the configuration has its author, command and differences in `data`.
	EventKindLog EventKind = "log"
)

// The request `events`. Absent filters do not filter.
type Events struct {
	// Events of these kinds only.
	Kinds []EventKind `json:"kinds,omitempty"`

	// Events of these classes only.
	Classes []string `json:"classes,omitempty"`

	// Events of this direction only.
	Direction string `json:"direction,omitempty"`

	// Events of flows of this user only.
	UID *uint32 `json:"uid,omitempty"`

	// Events of flows from or to this port only.
	Port *uint16 `json:"port,omitempty"`
}

// The request `explain`: the known fields of a packet.
type Explain struct {
	// The direction, where more than one is shaped.
	Direction string `json:"direction,omitempty"`

	// Transport protocol, by number.
	Protocol *Protocol `json:"protocol,omitempty"`

	// Sending address; given with the receiving one, of the same version.
	Source *netip.Addr `json:"source,omitempty"`

	// Sending port.
	SourcePort *uint16 `json:"source_port,omitempty"`

	// Receiving address.
	Destination *netip.Addr `json:"destination,omitempty"`

	// Receiving port.
	DestinationPort *uint16 `json:"destination_port,omitempty"`

	// Code point, 0 to 63. Default 0.
	DSCP *uint8 `json:"dscp,omitempty"`

	// Firewall mark. Default 0.
	Mark *uint32 `json:"mark,omitempty"`

	// Owner of the sending socket.
	UID *uint32 `json:"uid,omitempty"`

	// The interface by which it came in, if it is forwarded.
	FromInterface string `json:"from_interface,omitempty"`

	// Length with the IP header.
	LengthBytes *uint16 `json:"length_bytes,omitempty"`

	// The octet of TCP flags, FIN the lowest bit.
	TCPFlags *uint8 `json:"tcp_flags,omitempty"`

	// Whether it is a TCP acknowledgement without data.
	PureAck bool `json:"pure_ack,omitempty"`

	// Type of an ICMP message; of ICMPv6 with IPv6 addresses.
	ICMPType *uint8 `json:"icmp_type,omitempty"`
}

// The reply to `explain`.
type Explained struct {
	// The direction of the traffic.
	Direction string `json:"direction"`

	// The rule that matches, by its number in the file, from 1; those of reservations follow. None where no rule matches.
	Rule *uint32 `json:"rule,omitempty"`

	// Whether rule and class are those of the flow's last packet, as the shaper recorded them. If not, they are derived from the
	// request.
	Recorded bool `json:"recorded,omitempty"`

	// The choice of the rules now for a packet with the recorded fields, where it is not the recorded one.
	Now *Choice `json:"now,omitempty"`

	// The firewall mark of the flow's first packet, where class and rule are recorded.
	Mark *uint32 `json:"mark,omitempty"`

	// The interface by which it came in, where class and rule are recorded and a rule names it.
	FromInterface string `json:"from_interface,omitempty"`

	// The rules that do not hold now, by their times or their quotas, by number from 1.
	RulesOff []uint32 `json:"rules_off,omitempty"`

	// Its class; the name of a reservation.
	Class string `json:"class"`

	// The flow of the packet.
	Flow Flow `json:"flow"`

	QueuePackets uint64 `json:"queue_packets"`

	QueueBytes uint64 `json:"queue_bytes"`

	// The queue of its class, where that is known.
	ClassQueue *Queued `json:"class_queue,omitempty"`

	// The coupled queues of DualPI2 in its class; absent where its discipline is another.
	Coupled *CoupledQueues `json:"coupled,omitempty"`

	// The rate of its class.
	ClassRateBps uint64 `json:"class_rate_bps,omitempty"`

	// The levels of the token buckets that it must pass, where there are some.
	Buckets *Buckets `json:"buckets,omitempty"`

	// The ceiling that the next packet of its flow waits for.
	HeldBy HeldBy `json:"held_by,omitempty"`

	// Whether all flows of its class wait in a discipline of the class, so that `outlook_bps` and `at_most_bps` are of all
	// together.
	SharesQueue bool `json:"shares_queue,omitempty"`

	// The rate at which its flow sends, or would, while others continue; none where the discipline has no shares.
	OutlookBps uint64 `json:"outlook_bps,omitempty"`

	// The most that its flow may send while others leave theirs, with what it borrows; none where the discipline has no shares.
	AtMostBps uint64 `json:"at_most_bps,omitempty"`

	// The rate that its class advises to its flow, as payload of datagrams; none where nothing is advised.
	AdviceBps uint64 `json:"advice_bps,omitempty"`

	// The policy of that advice: `ceiling`, `fair-share` or `promise`.
	AdvisedBy string `json:"advised_by,omitempty"`

	// The time until the next queued packet may leave; none when nothing is queued.
	Due time.Duration `json:"due_ns,omitempty"`

	// The measurements of the flow, if it is present and flows are counted.
	Seen *FlowObservation `json:"seen,omitempty"`
}

// The request `feedback`.
type Feedback struct {
	// The flows. They need not exist yet.
	Target Target `json:"target,omitempty"`

	// The direction of the traffic. Default: the first that is shaped.
	Direction string `json:"direction,omitempty"`

	// The wait of the oldest packet that is reported by `delay-above`; `delay-below` reports half of it. Default 20 ms. Of
	// several for one flow, the shortest applies.
	Delay time.Duration `json:"delay_ns,omitempty"`

	// Events of these kinds only. Default: all. A flow that overloads its class is reported with each of its drops.
	Kinds []EventKind `json:"kinds,omitempty"`
}

// A flow: its key in this run of the daemon, and the fields of its packets, where known.
type Flow struct {
	// Hexadecimal; different after a restart.
	Key string `json:"key"`

	// Transport protocol, by number.
	Protocol *Protocol `json:"protocol,omitempty"`

	// Sending address.
	Source *netip.Addr `json:"source,omitempty"`

	// Sending port.
	SourcePort *uint16 `json:"source_port,omitempty"`

	// Receiving address.
	Destination *netip.Addr `json:"destination,omitempty"`

	// Receiving port.
	DestinationPort *uint16 `json:"destination_port,omitempty"`

	// Owner of the sending socket.
	UID *uint32 `json:"uid,omitempty"`
}

// Drops of a flow for one reason.
type FlowDrops struct {
	// Name of a drop reason.
	Reason string `json:"reason"`

	// Packets dropped for it.
	Packets uint64 `json:"packets"`
}

// The measurements of a flow. Counts are since its first packet; rates and waits are of the last moments.
type FlowObservation struct {
	// Its key and its addresses.
	Flow Flow `json:"flow"`

	// The class that the rules chose.
	Class string `json:"class"`

	// The class that it is displaced to, if it is.
	Through string `json:"through,omitempty"`

	// The rule that it matched: its name, or its conditions. None where no rule matched.
	Rule string `json:"rule,omitempty"`

	// The code point at the arrival of its first packet, where it is known.
	DSCP *uint8 `json:"dscp,omitempty"`

	// The time since its first packet.
	Age time.Duration `json:"age_ns"`

	// The time since its last packet.
	Idle time.Duration `json:"idle_ns"`

	// The rate at which it is sent.
	RateBps uint64 `json:"rate_bps"`

	// Its share if every flow offered what it is promised; none where its discipline has no shares.
	ShareBps uint64 `json:"share_bps,omitempty"`

	// Its minimum rate.
	MinimumBps uint64 `json:"minimum_bps,omitempty"`

	// Whether the minimum is granted, or waits for rate.
	Granted bool `json:"granted"`

	// Steps of preference.
	Preferred uint32 `json:"preferred"`

	// Packets that arrived.
	ArrivedPackets uint64 `json:"arrived_packets"`

	// Their bytes.
	ArrivedBytes uint64 `json:"arrived_bytes"`

	// Packets sent.
	SentPackets uint64 `json:"sent_packets"`

	// Their bytes.
	SentBytes uint64 `json:"sent_bytes"`

	// Bytes sent on rate borrowed from other classes, since the shaper has the flow.
	BorrowedBytes uint64 `json:"borrowed_bytes"`

	QueuePackets uint64 `json:"queue_packets"`

	QueueBytes uint64 `json:"queue_bytes"`

	// The ceiling that its next packet waits for.
	HeldBy HeldBy `json:"held_by,omitempty"`

	// The median.
	WaitP50 time.Duration `json:"wait_p50_ns"`

	// The 90th percentile.
	WaitP90 time.Duration `json:"wait_p90_ns"`

	// The 99th percentile.
	WaitP99 time.Duration `json:"wait_p99_ns"`

	// The longest wait since the start, or since the first packet of the flow.
	WaitLongest time.Duration `json:"wait_longest_ns"`

	// The variation of the wait from packet to packet of a flow (RFC 3550, 6.4.1).
	Jitter time.Duration `json:"jitter_ns"`

	// Drops by reason, in packets; reasons without a drop are left out.
	Dropped []FlowDrops `json:"dropped"`

	// Bytes dropped.
	DroppedBytes uint64 `json:"dropped_bytes"`

	// Packets marked congestion experienced.
	MarkedPackets uint64 `json:"marked_packets"`

	// Packets sent with another code point than they arrived with.
	RemarkedPackets uint64 `json:"remarked_packets"`

	// Seconds in which it offered its granted minimum or more, and was served it.
	PromiseKeptSeconds uint64 `json:"promise_kept_seconds"`

	// Seconds in which it offered it and was not served it.
	PromiseMissedSeconds uint64 `json:"promise_missed_seconds"`
}

// The order of flows, the largest value first.
type FlowSort string

const (
	// The present rate.
	FlowSortRate FlowSort = "rate"

	// Bytes sent.
	FlowSortBytes FlowSort = "bytes"

	// Bytes queued.
	FlowSortQueue FlowSort = "queue"

	// The 99th percentile of the waits of packets.
	FlowSortDelay FlowSort = "delay"

	// Packets dropped.
	FlowSortDrops FlowSort = "drops"

	// The time of the last packet.
	FlowSortRecent FlowSort = "recent"
)

// The state of a flow.
type FlowState struct {
	// Its key and its addresses.
	Flow Flow `json:"flow"`

	// The class that serves it.
	Class string `json:"class"`

	// The rate that it is granted.
	GrantedBps uint64 `json:"granted_bps"`

	// Its minimum rate.
	MinimumBps uint64 `json:"minimum_bps"`

	// Whether the minimum is in force.
	Promised bool `json:"promised"`
}

// The state of a flow table.
type FlowTableState struct {
	// Whether flows are counted.
	Counted bool `json:"counted"`

	// Why not.
	Uncounted string `json:"uncounted,omitempty"`

	// Flows in the table.
	Flows uint64 `json:"flows"`

	// Records made since the start.
	Created uint64 `json:"created"`

	// Flows removed after the idle timeout.
	Expired uint64 `json:"expired"`

	// Flows removed because the table was full.
	Evicted uint64 `json:"evicted"`

	// Packets of flows without a record.
	UntrackedPackets uint64 `json:"untracked_packets"`
}

// The request `flows`. Absent filters do not filter.
type Flows struct {
	// The order of the flows. Default: the largest rate first.
	Sort FlowSort `json:"sort,omitempty"`

	// The maximum number of flows, 1 to `Flows::MOST`. Default 100.
	Limit *uint32 `json:"limit,omitempty"`

	// Flows of this direction only.
	Direction string `json:"direction,omitempty"`

	// Flows of this class only.
	Class string `json:"class,omitempty"`

	// Flows of this user only.
	UID *uint32 `json:"uid,omitempty"`

	// Flows from or to this port only.
	Port *uint16 `json:"port,omitempty"`
}

// A change of a rate that follows the line.
type FollowDecision struct {
	// How long ago it was.
	Ago time.Duration `json:"ago_ns"`

	// The rate before.
	FromBps uint64 `json:"from_bps"`

	// The rate after.
	ToBps uint64 `json:"to_bps"`

	// The cause, as in `FollowStatus::cause`.
	Cause string `json:"cause"`

	// The rate that was carried before it.
	AchievedBps uint64 `json:"achieved_bps"`

	// The delay that was known, if any.
	Delay time.Duration `json:"delay_ns,omitempty"`
}

// A rate that follows the line.
type FollowStatus struct {
	// The allowed rate now.
	AllowedBps uint64 `json:"allowed_bps"`

	// The rate is never lower.
	LeastBps uint64 `json:"least_bps"`

	// The rate at the start, when idle and without signals.
	BaseBps uint64 `json:"base_bps"`

	// The rate is never higher.
	MostBps uint64 `json:"most_bps"`

	// The rate that was carried lately.
	AchievedBps uint64 `json:"achieved_bps"`

	// The delay of the line's queue, where peers have answered lately.
	Delay time.Duration `json:"delay_ns,omitempty"`

	// The least round trip of the last minute.
	Floor time.Duration `json:"floor_ns,omitempty"`

	// The number of peers that have answered within 300 ms.
	Peers uint64 `json:"peers"`

	// The number of probes sent.
	Probes uint64 `json:"probes"`

	// The number of changes of the rate.
	Changes uint64 `json:"changes"`

	// The cause of the last change: `start`, `quiet`, `delay`, `drain`, `silent`, `blind` or `idle`.
	Cause string `json:"cause"`

	// The cause as a sentence.
	Reason string `json:"reason"`

	// How long ago the rate changed last.
	Changed time.Duration `json:"changed_ns"`

	// The last changes, the oldest first.
	Recent []FollowDecision `json:"recent,omitempty"`
}

// How well an application works, as far as this shaper affects it. A greater grade is better.
type Grade string

const (
	// Its users are disturbed.
	GradePoor Grade = "poor"

	// Its users notice something.
	GradeFair Grade = "fair"

	// Its users notice nothing.
	GradeGood Grade = "good"
)

// The guardian of a direction.
type GuardianStatus struct {
	// Number of its process; absent while there is none.
	PID *uint32 `json:"pid,omitempty"`

	// Why there is none.
	Missing string `json:"missing,omitempty"`

	// How often it let packets pass, since the first of the shapers that took over from each other.
	Takeovers uint64 `json:"takeovers"`

	// Packets that arrived meanwhile.
	PassedPackets uint64 `json:"passed_packets"`

	// How often another guardian was started in its place.
	Restarts uint64 `json:"restarts"`

	// Whether its memory is locked.
	Locked bool `json:"locked"`

	// Whether it is scheduled before the data path.
	RealTime bool `json:"real_time"`

	// Whether it has given up all privileges that it does not need.
	Restricted bool `json:"restricted"`

	// Whether a restart or another version can take over through it.
	Reachable bool `json:"reachable"`
}

// A class in which packets wait for a ceiling. It was asked for, so that pages and transfers that wait for it have no grade.
type Held struct {
	// The class.
	Class string `json:"class"`

	// The ceiling.
	By HeldBy `json:"by"`
}

// The ceiling that packets wait for.
type HeldBy string

const (
	// The ceiling of their class.
	HeldByClass HeldBy = "class"

	// The ceiling of their host.
	HeldByHost HeldBy = "host"

	// The ceiling of their rule.
	HeldByRule HeldBy = "rule"

	// The ceiling of their flow.
	HeldByFlow HeldBy = "flow"
)

// One direction of a host.
type HostDirection struct {
	// The rate at which its packets are sent.
	RateBps uint64 `json:"rate_bps"`

	// The sum of the shares of its flows; none where the discipline has no shares.
	ShareBps uint64 `json:"share_bps,omitempty"`

	// Flows that are remembered.
	Flows uint64 `json:"flows"`

	// Bytes queued.
	QueueBytes uint64 `json:"queue_bytes"`

	// The longest of the 99th percentiles of the waits of its flows that sent something lately.
	WaitP99 time.Duration `json:"wait_p99_ns"`

	// Bytes sent since the host was first observed.
	SentBytes uint64 `json:"sent_bytes"`

	// Packets dropped since then.
	DroppedPackets uint64 `json:"dropped_packets"`
}

// The limit of the rate of a host.
type HostLimit string

const (
	// It sends less than it may.
	HostLimitDemand HostLimit = "demand"

	// One of its flows has a queue, so that it is sent as much as its share permits.
	HostLimitShare HostLimit = "share"

	// The ceiling of its class.
	HostLimitClassCeiling HostLimit = "class-ceiling"

	// Its own ceiling.
	HostLimitHostCeiling HostLimit = "host-ceiling"

	// The ceiling of a rule.
	HostLimitRuleCeiling HostLimit = "rule-ceiling"

	// The ceiling of a flow.
	HostLimitFlowCeiling HostLimit = "flow-ceiling"
)

// A host, with both directions of its flows.
type HostObservation struct {
	// Its address on this side of the line.
	Address netip.Addr `json:"address"`

	// Its name in a lease, in `/etc/hosts` or, if requested, by the resolver of the daemon.
	Name string `json:"name,omitempty"`

	// The packets that it sends.
	Up HostDirection `json:"up"`

	// The packets that it receives.
	Down HostDirection `json:"down"`

	// The class of its fastest flow.
	Class string `json:"class"`

	// The limit of its rate.
	LimitedBy HostLimit `json:"limited_by"`

	// The class that has the rate which its packets wait for; present where its share limits it and another class takes more.
	Rival *Rival `json:"rival,omitempty"`
}

// The request `in-force`.
type InForce struct {
	// The direction, where more than one is shaped.
	Direction string `json:"direction,omitempty"`
}

// One of the interfaces of a direction.
type InterfaceObservation struct {
	// Its name.
	Name string `json:"name"`

	// Whether it is there; it is shaped again when it returns.
	Present bool `json:"present"`

	// Whether it is there and down, so that nothing passes by it.
	Down bool `json:"down,omitempty"`

	// Packets of it that were sent since the data path was started.
	SentPackets uint64 `json:"sent_packets"`

	// Their bytes, from the network header on.
	SentBytes uint64 `json:"sent_bytes"`

	// Packets of it that were dropped.
	DroppedPackets uint64 `json:"dropped_packets"`

	// The rate of what was sent in the last second, in bits of packets from the network header on.
	RateBps uint64 `json:"rate_bps"`
}

// One of the interfaces of a direction.
type InterfaceStatus struct {
	// Its name.
	Name string `json:"name"`

	// Whether it is there; it is shaped again when it returns.
	Present bool `json:"present"`

	// Whether it is there and down, so that nothing passes by it.
	Down bool `json:"down,omitempty"`

	// Packets of it that were sent since the data path was started.
	SentPackets uint64 `json:"sent_packets"`

	// Their bytes, from the network header on.
	SentBytes uint64 `json:"sent_bytes"`

	// Packets of it that were dropped.
	DroppedPackets uint64 `json:"dropped_packets"`
}

// The line of a direction, and its use.
type LineObservation struct {
	// The rate of the line itself, where the configuration states it.
	CarriesBps uint64 `json:"carries_bps,omitempty"`

	// The rate of the last second, including what the line adds to each packet: it counts against the limit.
	UsedBps uint64 `json:"used_bps"`

	// The part of it that the line adds.
	OverheadBps uint64 `json:"overhead_bps"`
}

// A name in a rule, and the addresses that it has now.
type NameStatus struct {
	// The number of the rule, from 1.
	Rule uint32 `json:"rule"`

	// The key of the rule: `host-name`, `dns-name` or `mac`.
	Key string `json:"key"`

	// The name as the file has it.
	Name string `json:"name"`

	// Its addresses, in order; empty while none is known.
	Addresses []netip.Addr `json:"addresses,omitempty"`
}

// A change or a fault.
type Note struct {
	// When it was, in seconds since 1970.
	TimeS uint64 `json:"time_s"`

	// Its subject.
	Kind NoteKind `json:"kind"`

	// A text for display. That of a change begins with who made it, and by which command.
	Text string `json:"text"`
}

// The subject of a note.
type NoteKind string

const (
	// A change of the configuration.
	NoteKindChange NoteKind = "change"

	// Anything else that is logged: faults, recoveries, interfaces that come and go.
	NoteKindEvent NoteKind = "event"
)

// The reply to `notes`.
type NoteList struct {
	// The oldest first.
	Notes []Note `json:"notes"`
}

// The request `notes`.
type Notes struct {
	// Notes from this second on, since 1970. Default: all that are kept.
	SinceS *uint64 `json:"since_s,omitempty"`
}

// An observation: the measurements of one moment.
type Observation struct {
	// The time of day, in milliseconds since 1970.
	TimeMs uint64 `json:"time_ms"`

	// Name of the shaped interface; of several the names with ` + ` between them.
	Interface string `json:"interface"`

	// The time since the start of the daemon.
	Uptime time.Duration `json:"uptime_ns"`

	// Whether shaping is in force.
	InForce bool `json:"in_force"`

	// Why shaping is not in force, if it is not.
	Trouble string `json:"trouble,omitempty"`

	// Each direction of the traffic.
	Directions []DirectionObservation `json:"directions"`

	// The hosts on this side of the line, the fastest first, at most `Observation::MOST_HOSTS`; absent where flows were not
	// requested.
	Hosts []HostObservation `json:"hosts,omitempty"`
}

// The privileges of a process.
type PrivilegeStatus struct {
	// Its capabilities, as `CAP_NET_ADMIN`.
	Capabilities []string `json:"capabilities"`

	// Capabilities that a program which it runs could have beside these, if `no_new_privs` did not prevent it.
	Obtainable []string `json:"obtainable,omitempty"`

	// Whether it gains no privileges by running a program.
	NoNewPrivs bool `json:"no_new_privs"`

	// Whether system calls are filtered.
	Filtered bool `json:"filtered"`
}

// The request `promise`. The promise ends with the connection, unless it is `detached`, and when its lease is over.
type PromiseCall struct {
	// The flows. They need not exist yet.
	Target Target `json:"target,omitempty"`

	// The direction of the traffic. Default: the first that is shaped.
	Direction string `json:"direction,omitempty"`

	// The class in which rate is reserved for flows to come. Default: the one in which most of such flows are now; if there are
	// none yet, the one that the rules choose for such flows.
	Class string `json:"class,omitempty"`

	// The minimum rate of each of these flows.
	MinimumBps uint64 `json:"minimum_bps,omitempty"`

	// The number of flows for which the minimum is reserved; further ones are granted it when rate is free. Default 1.
	Flows *uint32 `json:"flows,omitempty"`

	// Steps of preference of each.
	Prefer uint32 `json:"prefer,omitempty"`

	// Their displacement.
	Displace *Displacement `json:"displace,omitempty"`

	// The promise ends after this time, unless it is renewed.
	Lease time.Duration `json:"lease_ns,omitempty"`

	// Whether the promise outlives the connection, which requires a lease.
	Detached bool `json:"detached,omitempty"`

	// Whether a minimum that does not fit is queued: flows begin without it and are granted it when rate is released.
	// Otherwise such a promise is refused.
	Wait bool `json:"wait,omitempty"`
}

// The reply to `promises`.
type PromiseList struct {
	// In the order in which they were made.
	Promises []PromiseState `json:"promises"`
}

// The state of a promise.
type PromiseState struct {
	// The number of the promise.
	Promise uint64 `json:"promise"`

	// The user who requested it.
	UID uint32 `json:"uid"`

	// The direction of the traffic.
	Direction string `json:"direction"`

	// The class in which rate is reserved for flows to come.
	Class string `json:"class"`

	// Another class in which flows under the promise are now, and have their minimum from, or wait for it.
	Elsewhere string `json:"elsewhere,omitempty"`

	// The flows under the promise.
	Target Target `json:"target"`

	// The minimum rate of each flow.
	MinimumBps uint64 `json:"minimum_bps"`

	// Steps of preference.
	Prefer uint32 `json:"prefer"`

	// Flows present under it.
	Flows uint64 `json:"flows"`

	// Those of them whose minimum waits for rate.
	Waiting uint64 `json:"waiting"`

	// The rate that these flows are granted now, in total.
	GrantedBps uint64 `json:"granted_bps"`

	// The number of flows to come for which rate is reserved.
	Held uint32 `json:"held"`

	// The rate that could still be promised in the class.
	FreeBps uint64 `json:"free_bps"`

	// Why flows under it wait for their minimum, or nothing is reserved for flows to come, and what helps, in words.
	Obstacle string `json:"obstacle,omitempty"`

	// The time left of its lease.
	Lease time.Duration `json:"lease_ns,omitempty"`

	// Whether it outlives its connection.
	Detached bool `json:"detached"`
}

// The promise that was made.
type Promised struct {
	// The number of the promise.
	Promise uint64 `json:"promise"`

	// The subscription to its events: `rate`, `promised`, `waiting`, `moved`, `promise-ended` and all others of the flows
	// under it.
	Subscription uint64 `json:"subscription"`

	// The state of the promise.
	State PromiseState `json:"state"`
}

// A transport protocol, by its number.
type Protocol uint8

// The backlog of a queue.
type Queued struct {
	// Packets that are queued.
	Packets uint64 `json:"packets"`

	// Their bytes.
	Bytes uint64 `json:"bytes"`
}

// A rule with a quota.
type QuotaStatus struct {
	// The number of the rule, from 1.
	Rule uint32 `json:"rule"`

	// Its name, or its conditions.
	Label string `json:"label"`

	// Names the count. Rules with the same one share it, as the two directions of a rule that is for both.
	Count string `json:"count,omitempty"`

	// Bytes that it has taken since the period began. They exceed the quota by those that arrived before it was switched off, at most
	// two seconds' traffic.
	UsedBytes uint64 `json:"used_bytes"`

	// Bytes that are left of the quota.
	LeftBytes uint64 `json:"left_bytes"`

	// The quota of a period.
	QuotaBytes uint64 `json:"quota_bytes"`

	// `day`, `week` or `month`.
	Period string `json:"period"`

	// The date on which it begins anew, at midnight in the time zone of the host.
	Next string `json:"next"`

	// That moment, in seconds since 1970; absent where the clock of the host has none.
	NextS *uint64 `json:"next_s,omitempty"`
}

// The request `refresh`.
type Refresh struct {
	// Number of the reservation.
	Reservation uint64 `json:"reservation"`
}

// The reply to `refresh`.
type Refreshed struct {
	// The time until it ends without another refresh.
	ExpiresIn time.Duration `json:"expires_in_ns"`
}

// The request `release`.
type Release struct {
	// Number of the promise.
	Promise uint64 `json:"promise"`
}

// The request `renew`.
type Renew struct {
	// Number of the promise.
	Promise uint64 `json:"promise"`

	// The new lease, from now on.
	Lease time.Duration `json:"lease_ns"`
}

// The reply to `reservations`.
type ReservationList struct {
	// The oldest first.
	Reservations []Reserved `json:"reservations"`
}

// The request `reserve`. The reservation ends with the connection, or after `for_ns`; without `for_ns` it must be refreshed
// before it expires. For a user who is not root it applies to packets of that user.
type Reserve struct {
	// The direction, where more than one is shaped.
	Direction string `json:"direction,omitempty"`

	// The name of the class. Default: one with a number.
	Name string `json:"name,omitempty"`

	// Conditions on its packets: keys and values as in a rule, such as `["destination-port", "5004"]`.
	Matches [][2]string `json:"matches"`

	// Token rate r (RFC 2210).
	RateBps uint64 `json:"rate_bps"`

	// Bucket b. Default: two of the largest packets.
	BucketBytes *uint64 `json:"bucket_bytes,omitempty"`

	// Peak rate p. Default: that of the link.
	PeakBps uint64 `json:"peak_bps,omitempty"`

	// Minimum policed unit m. Default: 64 bytes.
	MinUnitBytes *uint64 `json:"min_unit_bytes,omitempty"`

	// Maximum packet size M. Default: the link's.
	MaxPacketBytes *uint64 `json:"max_packet_bytes,omitempty"`

	// Whether a bound on the delay is required (RFC 2212), and not the rate alone (RFC 2211).
	Guaranteed bool `json:"guaranteed,omitempty"`

	// The required bound on the delay; as much rate is reserved as it needs.
	Delay time.Duration `json:"delay_ns,omitempty"`

	// The reservation lasts for this time, also without the connection.
	For time.Duration `json:"for_ns,omitempty"`
}

// A reservation in force.
type Reserved struct {
	// Its number, for `refresh` and `unreserve`.
	Reservation uint64 `json:"reservation"`

	// The name of its class in `status`.
	Name string `json:"name"`

	// The conditions on its packets, as text.
	Matches string `json:"matches"`

	// The reserved rate.
	RateBps uint64 `json:"rate_bps"`

	// The bound on the wait of a packet, of a flow that conforms to its token bucket (RFC 2212); none where the tree has no
	// bound.
	Bound time.Duration `json:"bound_ns,omitempty"`

	// The limit of its queue.
	BufferBytes uint64 `json:"buffer_bytes"`

	// The time until it ends: without a refresh, or, with `for_ns`, in any case.
	ExpiresIn time.Duration `json:"expires_in_ns"`

	// The rate that can still be reserved.
	FreeBps uint64 `json:"free_bps"`
}

// The class that has most of the rate which another class waits for.
type Rival struct {
	// Its name.
	Class string `json:"class"`

	// The reason for which it comes before the other.
	By RivalBy `json:"by"`

	// The part of the line that it takes for this reason, in percent.
	Percent uint64 `json:"percent"`
}

// The reason for which a class has rate that another one waits for.
type RivalBy string

const (
	// Its priority is a smaller number, so that it is served first.
	RivalByPriority RivalBy = "priority"

	// It borrows rate that no class uses for itself.
	RivalByBorrowing RivalBy = "borrowing"

	// It uses the rate that it is promised.
	RivalByPromise RivalBy = "promise"
)

// A rule of the file, and the packets that it has matched.
type RuleObservation struct {
	// Its number, from 1.
	Rule uint32 `json:"rule"`

	// Its name, where it has one.
	Name string `json:"name,omitempty"`

	// Its name, or its conditions, of which at most 160 characters; empty where it has neither.
	Label string `json:"label"`

	// The class that it puts packets into.
	Class string `json:"class"`

	// Whether it matches at present: it is its time, and its quota is not used up.
	InForce bool `json:"in_force"`

	// Packets that it has matched since the start, when they arrived. A rule that moves in the file goes on with its count.
	Packets uint64 `json:"packets"`

	// Their bytes, with the overhead of the link.
	Bytes uint64 `json:"bytes"`
}

// A class of CBQ in the sharing of the link, with its counts since its tree was built.
type SharedClassStatus struct {
	// Its name; `root` for the link.
	Name string `json:"name"`

	// The name of the class above it; absent for the root.
	Parent string `json:"parent,omitempty"`

	// The rate that it is guaranteed.
	RateBps uint64 `json:"rate_bps"`

	// Packets that it or its descendants sent.
	SentPackets uint64 `json:"sent_packets"`

	// Their bytes.
	SentBytes uint64 `json:"sent_bytes"`

	// Packets that it sent while it was over its limit, with rate of a class above it. Only a class with a queue borrows.
	BorrowedPackets uint64 `json:"borrowed_packets"`

	// Their bytes.
	BorrowedBytes uint64 `json:"borrowed_bytes"`

	// Packets that classes below it sent with its rate. Only a class with children lends.
	LentPackets uint64 `json:"lent_packets"`

	// Their bytes.
	LentBytes uint64 `json:"lent_bytes"`

	// Packets that it sent although no class had rate left, because the link would have been idle (`conserving`).
	RescuedPackets uint64 `json:"rescued_packets,omitempty"`

	// Packets after which it was over its limit.
	OverlimitPackets uint64 `json:"overlimit_packets"`

	// How often it was suspended: over its limit with a packet waiting and no class to borrow from.
	Regulated uint64 `json:"regulated"`

	// The time until its under-time, when it is below its limit again; absent while it is not over its limit.
	UnderTime time.Duration `json:"under_time_ns,omitempty"`

	// The average idle time in nanoseconds, negative when it was faster than its rate (`accounting = "idle-time"`).
	AverageIdle time.Duration `json:"average_idle_ns,omitempty"`

	// The bytes that it may send at once, negative when it owes some (`accounting = "bytes"`).
	CreditBytes *int64 `json:"credit_bytes,omitempty"`
}

// The state of the shaper, at most 20 ms old.
type Status struct {
	// The version of the program.
	Version string `json:"version"`

	// Process number of the daemon.
	PID uint32 `json:"pid"`

	// Number of its network namespace (the inode of `/proc/PID/ns/net`); absent from daemons of earlier versions.
	NetworkNamespace *uint64 `json:"network_namespace,omitempty"`

	// Name of the shaped interface; of several the names with ` + ` between them.
	Interface string `json:"interface"`

	// Path of the shaper file; `-` for standard input.
	File string `json:"file"`

	// The time since the start of the daemon.
	Uptime time.Duration `json:"uptime_ns"`

	// Whether shaping is in force; `false` while traffic passes unshaped, for the reason in `trouble`.
	InForce bool `json:"in_force"`

	// Why shaping is not in force, if it is not.
	Trouble string `json:"trouble,omitempty"`

	// The time left of the trial of a change, which is then taken back unless it is confirmed; none without a trial.
	Trial time.Duration `json:"trial_ns,omitempty"`

	// The privileges of the daemon's process, of all threads together; absent where they cannot be read.
	Privileges *PrivilegeStatus `json:"privileges,omitempty"`

	// The shaped directions: egress, ingress, or both.
	Directions []DirectionStatus `json:"directions"`

	// The counters of the control socket.
	Control ControlStatus `json:"control"`
}

// The reply to `events`.
type Subscribed struct {
	// The number that every notification carries.
	Subscription uint64 `json:"subscription"`
}

// The host that takes most of a line.
type Taker struct {
	// Its name, or its address where it has none.
	Host string `json:"host"`

	// Its part of what is sent, in percent.
	Percent uint64 `json:"percent"`
}

// A selection of flows. Every condition must hold; a target without a condition is refused.
type Target struct {
	// From or to this port.
	Port *uint16 `json:"port,omitempty"`

	// Flows of this transport protocol, by number.
	Protocol *Protocol `json:"protocol,omitempty"`

	// From this address.
	Source *netip.Addr `json:"source,omitempty"`

	// From this port.
	SourcePort *uint16 `json:"source_port,omitempty"`

	// To this address.
	Destination *netip.Addr `json:"destination,omitempty"`

	// To this port.
	DestinationPort *uint16 `json:"destination_port,omitempty"`

	// Flows of sockets of this user.
	UID *uint32 `json:"uid,omitempty"`

	// Flows of sockets of the processes in this control group and those below it; the path below /sys/fs/cgroup.
	Cgroup string `json:"cgroup,omitempty"`

	// Flows of sockets of this process and its descendants.
	PID *uint32 `json:"pid,omitempty"`
}

// The reply to `in-force`.
type Text struct {
	// A shaper file.
	Text string `json:"text"`
}

// A rule that holds at some times only.
type TimedRuleStatus struct {
	// The number of the rule, from 1.
	Rule uint32 `json:"rule"`

	// Its name, or its conditions.
	Label string `json:"label"`

	// Whether it is the time of the rule.
	Holds bool `json:"holds"`

	// When this changes next, as `fri 18:00` in the time zone of the host; absent where it never does.
	Until string `json:"until,omitempty"`
}

// The kind of an application's traffic, by what disturbs its user.
type Traffic string

const (
	// Voice and video calls.
	TrafficCalls Traffic = "calls"

	// Interactive games.
	TrafficGames Traffic = "games"

	// Either calls or games: a steady stream of small datagrams without a code point or a class that tells them apart.
	TrafficLive Traffic = "live"

	// Pages and name lookups: short transfers that a person waits for.
	TrafficWeb Traffic = "web"

	// Long transfers that take what rate they find, and their acknowledgements.
	TrafficBulk Traffic = "bulk"

	// None of the others, as far as is known.
	TrafficUnknown Traffic = "unknown"
)

// The answer for one kind of traffic.
type TrafficAnswer struct {
	// The kind.
	Traffic Traffic `json:"traffic"`

	// How well it works; absent where the kind is unknown.
	Grade Grade `json:"grade,omitempty"`

	// The wait in the shaper: the 99th percentile of calls and games, and of the worst flow among them; the 90th percentile of
	// other traffic, and of nine of ten flows.
	Wait time.Duration `json:"wait_ns"`

	// The jitter (RFC 3550, 6.4.1), of the worst flow or class.
	Jitter time.Duration `json:"jitter_ns"`

	// Dropped packets in a million that arrived lately.
	LostPpm uint64 `json:"lost_ppm"`

	// The rate of this traffic.
	RateBps uint64 `json:"rate_bps"`

	// Its flows, where flows are counted.
	Flows uint64 `json:"flows"`

	// The weakest of the reasons for which traffic was taken to be of this kind.
	Basis Basis `json:"basis"`

	// The class with the wait of the evidence; empty if it is the only one, or states the kind by its name.
	Class string `json:"class,omitempty"`

	// The class that has the rate which this traffic waits for; absent where the grade is good or nothing else takes the rate.
	Rival *Rival `json:"rival,omitempty"`
}

// The request `undo`.
type Undo struct {
	// Only return the differences.
	DryRun bool `json:"dry_run,omitempty"`
}

// The request `unreserve`.
type Unreserve struct {
	// Number of the reservation.
	Reservation uint64 `json:"reservation"`
}

// The reply to `unreserve`.
type Unreserved struct {
	// The name that it had.
	Name string `json:"name"`
}

// The request `unsubscribe`.
type Unsubscribe struct {
	// Number of a subscription of this connection.
	Subscription uint64 `json:"subscription"`
}

// The waits of packets, as a cumulative histogram that only grows.
type Waits struct {
	// Packets that have left.
	Count uint64 `json:"count"`

	// The sum of their waits.
	Sum time.Duration `json:"sum_ns"`

	// Packets that waited at most `Waits::bound`: 16,384 ns, twice that, and so on. Further elements equal `count`.
	UpTo []uint64 `json:"up_to"`
}

// The reply to `feedback`.
type Watching struct {
	// The number that every notification carries.
	Subscription uint64 `json:"subscription"`

	// The flows present, at most 64 of them.
	Flows []FlowState `json:"flows"`
}
