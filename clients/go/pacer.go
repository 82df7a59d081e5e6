package tidegate

import (
	"context"
	"sync"
	"time"
)

// behind is the time for which a Pacer makes up after a pause.
const behind = 50 * time.Millisecond

// Pacer spaces what a program sends, so that it leaves at a rate and not in bursts. Several goroutines may use it.
type Pacer struct {
	mutex sync.Mutex
	bps   uint64
	// due is when the next byte may leave.
	due time.Time
}

// NewPacer returns a Pacer for a rate in bit/s, such as 2*[Mbit].
func NewPacer(bps uint64) *Pacer { return &Pacer{bps: bps} }

// SetRate sets the rate from now on, in bit/s. Nothing is sent at a rate of zero until another one is set.
func (p *Pacer) SetRate(bps uint64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.bps = bps
}

// Wait waits until a packet of this many bytes may be sent, and counts it as sent. It returns the error of a context that
// ends before; the packet is not counted then. After a pause at most the last 50 ms are made up for.
func (p *Pacer) Wait(ctx context.Context, bytes int) error {
	for {
		wait := p.take(time.Now(), bytes)
		if wait <= 0 {
			return ctx.Err()
		}
		// The rate may change meanwhile.
		if wait > behind {
			wait = behind
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// take counts a packet if it may be sent now, and otherwise returns how long to wait.
func (p *Pacer) take(now time.Time, bytes int) time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.bps == 0 {
		return behind
	}
	if wait := p.due.Sub(now); wait > 0 {
		return wait
	}
	if oldest := now.Add(-behind); p.due.Before(oldest) {
		p.due = oldest
	}
	p.due = p.due.Add(time.Duration(float64(bytes) * 8e9 / float64(p.bps)))
	return 0
}
