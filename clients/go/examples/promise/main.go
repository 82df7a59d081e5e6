// Has 2 Mbit/s promised to what is sent to port 5004, and prints what happens to it, for a minute:
//
//	go run ./examples/promise [INTERFACE]
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	tidegate "tidegate.invalid/client"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name := ""
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	for {
		err := hold(ctx, name)
		if err == nil {
			return
		}
		fmt.Fprintln(os.Stderr, err)
		// The shaper says no. Whatever else fails may be over when it is back, as after an upgrade.
		var refusal *tidegate.Refusal
		if errors.As(err, &refusal) || errors.Is(err, errEnded) || ctx.Err() != nil {
			os.Exit(1)
		}
		time.Sleep(time.Second)
	}
}

var errEnded = errors.New("the promise ended")

func hold(ctx context.Context, name string) error {
	client, err := tidegate.Open(ctx, name)
	if err != nil {
		return err
	}
	// The promise ends with the connection.
	defer client.Close()
	request := tidegate.PromiseCall{
		Target:     tidegate.Target{DestinationPort: tidegate.Ptr(uint16(5004))},
		MinimumBps: 2 * tidegate.Mbit,
	}
	promised, err := client.Promise(ctx, request)
	var refusal *tidegate.Refusal
	if errors.As(err, &refusal) && refusal.Code == tidegate.CodeNoRoom {
		// There is not enough. Wait for rate that others release.
		fmt.Println(refusal)
		request.Wait = true
		promised, err = client.Promise(ctx, request)
	}
	if err != nil {
		return err
	}
	fmt.Printf("promise %d in class %s\n", promised.Promise, promised.State.Class)
	for {
		select {
		case <-ctx.Done():
			return client.Release(context.Background(), tidegate.Release{Promise: promised.Promise})
		case notification, open := <-client.Notifications():
			if !open {
				return client.Err()
			}
			event := notification.Event
			if event != nil && event.GrantedBps != 0 {
				fmt.Printf("%s: granted %d bit/s\n", event.Kind, event.GrantedBps)
			}
			if event != nil && event.Kind == tidegate.EventKindPromiseEnded {
				return fmt.Errorf("%w: %s", errEnded, event.Text)
			}
		}
	}
}
