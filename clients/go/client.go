// Package tidegate is a client for the control socket of a running Tidegate traffic shaper: status, promises, reservations,
// events and changes of the configuration.
//
// [Open] connects to a shaper, and [Client] has a method for each call. What is sent under a promise is spaced by a [Pacer].
// constants.go has the names, numbers and time limits of the protocol. The chapter "The control protocol" of the book
// describes what the calls mean. The package needs the standard library alone.
package tidegate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

const (
	// longest is the length from which a message is not taken for one of Tidegate, in bytes.
	longest = 16 << 20
	// unread is how many notifications wait until they are read. Further ones are lost, and counted.
	unread = 1024
)

// ErrClosed is the error of calls over a connection that has ended: by Close, or by the shaper.
var ErrClosed = errors.New("tidegate closed the connection; it may have ended")

// Refusal is the error of a call that the shaper refused.
type Refusal struct {
	// Code is for programs: [CodeNoRoom], [CodeNotAllowed] and others.
	Code Code `json:"code"`

	// Message is the cause, for people.
	Message string `json:"message"`

	// Help is the remedy, for people, where there is one.
	Help string `json:"help,omitempty"`
}

func (refusal *Refusal) Error() string {
	if refusal.Help == "" {
		return refusal.Message
	}
	return refusal.Message + "; " + refusal.Help
}

// Notification is an event of a subscription, or the number of events that were lost because they were not read in time.
type Notification struct {
	// Subscription is the number in the reply to Events, Feedback or Promise.
	Subscription uint64

	// Event is nil where events were lost.
	Event *Event

	// Lost is the number of events that were lost.
	Lost uint64
}

// Ptr returns a pointer to a value, for the fields of requests that may be left out.
func Ptr[T any](value T) *T { return &value }

// Client is a connection to a shaper. Several goroutines may use it. Subscriptions, promises and reservations end with it,
// unless they were requested to last.
type Client struct {
	connection    net.Conn
	notifications chan Notification

	// writing is held while a request is written.
	writing sync.Mutex

	// mutex guards what follows.
	mutex   sync.Mutex
	next    uint64
	waiting map[uint64]chan message
	// failure is why the connection has ended.
	failure error
}

type message struct {
	ID           uint64          `json:"id"`
	OK           json.RawMessage `json:"ok"`
	Error        *Refusal        `json:"error"`
	Subscription uint64          `json:"subscription"`
	Event        *Event          `json:"event"`
	Lost         uint64          `json:"lost"`
}

// Open connects to the shaper of an interface; with an empty name, to the only one that runs.
func Open(ctx context.Context, name string) (*Client, error) {
	path, err := Find(name)
	if err != nil {
		return nil, err
	}
	return Connect(ctx, path)
}

// Connect connects to the control socket at path. [Find] finds it, and [Open] does both.
func Connect(ctx context.Context, path string) (*Client, error) {
	dialer := net.Dialer{Timeout: ConnectTimeout}
	connection, err := dialer.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("cannot reach tidegate at %s: %w; is it running?", path, err)
	}
	c := &Client{
		connection:    connection,
		notifications: make(chan Notification, unread),
		waiting:       make(map[uint64]chan message),
	}
	go c.read()
	return c, nil
}

// Close ends the connection, with its promises and subscriptions.
func (c *Client) Close() error {
	c.end(ErrClosed)
	return nil
}

// Notifications has the events of all subscriptions. It is closed when the connection ends; then [Client.Err] has the reason.
func (c *Client) Notifications() <-chan Notification { return c.notifications }

// Err returns why the connection has ended, and nil while it has not.
func (c *Client) Err() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.failure
}

// call makes a call and reads the reply into reply, within limit or what is left of the context.
func (c *Client) call(ctx context.Context, name string, with, reply any, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answered := make(chan message, 1)
	c.mutex.Lock()
	if c.failure != nil {
		defer c.mutex.Unlock()
		return c.failure
	}
	c.next++
	id := c.next
	c.waiting[id] = answered
	c.mutex.Unlock()
	defer func() {
		c.mutex.Lock()
		delete(c.waiting, id)
		c.mutex.Unlock()
	}()
	line, err := json.Marshal(struct {
		ID      uint64 `json:"id"`
		Version int    `json:"version"`
		Call    string `json:"call"`
		With    any    `json:"with,omitempty"`
	}{id, Version, name, with})
	if err != nil {
		return err
	}
	if err := c.write(ctx, append(line, '\n')); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("tidegate does not answer `%s`: %w", name, ctx.Err())
	case message, open := <-answered:
		switch {
		case !open:
			return c.Err()
		case message.Error != nil:
			return message.Error
		case reply == nil:
			return nil
		default:
			return json.Unmarshal(message.OK, reply)
		}
	}
}

// write writes a request. One that is cut off would garble those that follow, so that the connection ends with it.
func (c *Client) write(ctx context.Context, line []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	deadline, _ := ctx.Deadline()
	_ = c.connection.SetWriteDeadline(deadline)
	if _, err := c.connection.Write(line); err != nil {
		// A refusal of the connection says more, and the reader finds it.
		c.end(fmt.Errorf("the connection to tidegate broke: %w", err))
		return c.Err()
	}
	return nil
}

// read reads messages until the connection ends.
func (c *Client) read() {
	lines := bufio.NewScanner(c.connection)
	lines.Buffer(nil, longest)
	lost := make(map[uint64]uint64)
	for lines.Scan() {
		var message message
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil {
			c.end(fmt.Errorf("this client does not understand a message of tidegate: %w", err))
			break
		}
		switch {
		case message.Event != nil || message.Lost > 0:
			c.notify(message, lost)
		case message.ID == 0 && message.Error != nil:
			// A refusal of the whole connection.
			c.end(message.Error)
		default:
			c.mutex.Lock()
			if answered, found := c.waiting[message.ID]; found {
				delete(c.waiting, message.ID)
				answered <- message
			}
			c.mutex.Unlock()
		}
	}
	if err := lines.Err(); err != nil {
		c.end(fmt.Errorf("the connection to tidegate broke: %w", err))
	}
	c.end(ErrClosed)
	close(c.notifications)
}

// notify passes a notification on, and counts those for which there is no room.
func (c *Client) notify(message message, lost map[uint64]uint64) {
	of := message.Subscription
	if before := lost[of]; before > 0 {
		select {
		case c.notifications <- Notification{Subscription: of, Lost: before}:
			delete(lost, of)
		default:
		}
	}
	select {
	case c.notifications <- Notification{Subscription: of, Event: message.Event, Lost: message.Lost}:
	default:
		lost[of] += message.Lost
		if message.Event != nil {
			lost[of]++
		}
	}
}

// end ends the connection for a reason, unless it has ended, and the calls that wait.
func (c *Client) end(reason error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.failure != nil {
		return
	}
	c.failure = reason
	for id, answered := range c.waiting {
		delete(c.waiting, id)
		close(answered)
	}
	_ = c.connection.Close()
}
