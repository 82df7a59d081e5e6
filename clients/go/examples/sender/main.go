// Sends datagrams at the rate that the shaper grants, which promises at least 2 Mbit/s, for a minute:
//
//	go run ./examples/sender 198.51.100.7:5004 [INTERFACE]
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	tidegate "tidegate.invalid/client"
)

const (
	minimum = 2 * tidegate.Mbit
	// The shaper counts packets with the headers of IPv4 and UDP.
	headers = 28
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: sender ADDRESS:PORT [INTERFACE]")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	name := ""
	if len(os.Args) > 2 {
		name = os.Args[2]
	}
	if err := send(ctx, os.Args[1], name); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func send(ctx context.Context, to, name string) error {
	socket, err := net.Dial("udp", to)
	if err != nil {
		return err
	}
	defer socket.Close()
	client, err := tidegate.Open(ctx, name)
	if err != nil {
		return err
	}
	// The promise ends with the connection.
	defer client.Close()
	local, remote := socket.LocalAddr().(*net.UDPAddr), socket.RemoteAddr().(*net.UDPAddr)
	promised, err := client.Promise(ctx, tidegate.PromiseCall{
		Target: tidegate.Target{
			Protocol:        tidegate.Ptr(tidegate.ProtocolUDP),
			SourcePort:      tidegate.Ptr(uint16(local.Port)),
			DestinationPort: tidegate.Ptr(uint16(remote.Port)),
		},
		MinimumBps: minimum,
	})
	if err != nil {
		// A *tidegate.Refusal says what would fit. With Wait in the request this one would wait for others.
		return err
	}
	fmt.Printf("promise %d in class %s\n", promised.Promise, promised.State.Class)
	pacer := tidegate.NewPacer(minimum)
	go func() {
		for notification := range client.Notifications() {
			if event := notification.Event; event != nil && event.GrantedBps != 0 {
				fmt.Printf("%s: granted %d bit/s\n", event.Kind, event.GrantedBps)
				pacer.SetRate(event.GrantedBps)
			}
		}
	}()
	for packet := make([]byte, 1200); ; {
		if err := pacer.Wait(ctx, len(packet)+headers); err != nil {
			return err
		}
		// Where nobody listens yet the packet is lost, as on any network.
		_, _ = socket.Write(packet)
		if err := client.Err(); err != nil {
			return err
		}
	}
}
