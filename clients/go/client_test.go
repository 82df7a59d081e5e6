package tidegate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestExamples reads the example of each call strictly and writes it again: nothing is unknown, and nothing is lost.
func TestExamples(t *testing.T) {
	for _, example := range examples {
		for text, value := range map[string]any{example.with: example.requestType, example.reply: example.replyType} {
			if value == nil {
				continue
			}
			decoder := json.NewDecoder(strings.NewReader(text))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(value); err != nil {
				t.Errorf("%s: %v: %s", example.call, err, text)
			}
			written, err := json.Marshal(value)
			if err != nil {
				t.Errorf("%s: %v", example.call, err)
			}
			var before, after any
			_ = json.Unmarshal([]byte(text), &before)
			_ = json.Unmarshal(written, &after)
			// What is false, zero or empty may be left out, as the daemon takes it for that.
			if lacks(before, after) {
				t.Errorf("%s: %s\nhas become\n%s", example.call, text, written)
			}
		}
	}
}

// lacks says whether something that is in before is not in after.
func lacks(before, after any) bool {
	object, is := before.(map[string]any)
	if list, isList := before.([]any); isList {
		other, _ := after.([]any)
		if len(list) != len(other) {
			return true
		}
		for at, value := range list {
			if lacks(value, other[at]) {
				return true
			}
		}
		return false
	}
	if !is {
		return !reflect.DeepEqual(before, after)
	}
	other, _ := after.(map[string]any)
	for key, value := range object {
		found, there := other[key]
		if there && lacks(value, found) || !there && value != false && value != 0.0 && value != "" {
			return true
		}
	}
	return false
}

func TestEditsHaveTheirKind(t *testing.T) {
	request := Apply{Edits: []Edit{
		EditSet{Section: "class", Name: "rest", Key: "rate", Value: ""},
		EditRemove{Section: "rule", Name: "2"},
	}}
	written, err := json.Marshal(request)
	want := `{"edits":[{"edit":"set","section":"class","name":"rest","key":"rate","value":""},` +
		`{"edit":"remove","section":"rule","name":"2"}]}`
	if err != nil || string(written) != want {
		t.Errorf("%s, %v", written, err)
	}
}

// served connects to a process that does this with a connection.
func served(t *testing.T, serve func(net.Conn)) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		if connection, err := listener.Accept(); err == nil {
			serve(connection)
		}
	}()
	client, err := Connect(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestASilentShaperIsNotWaitedFor(t *testing.T) {
	client := served(t, func(net.Conn) {})
	began := time.Now()
	err := client.call(context.Background(), "status", nil, nil, 50*time.Millisecond)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "does not answer `status`") {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := client.Promises(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("%v", took)
	}
}

func TestWhatIsNoShaperEndsTheConnection(t *testing.T) {
	for text, want := range map[string]string{
		"hello\n": "does not understand",
		"{\"id\":0,\"error\":{\"code\":\"too-many\",\"message\":\"too many clients\",\"help\":\"close some\"}}\n": "too many clients; close some",
		"": "closed the connection",
	} {
		client := served(t, func(connection net.Conn) {
			_, _ = bufio.NewReader(connection).ReadString('\n')
			_, _ = connection.Write([]byte(text))
			_ = connection.Close()
		})
		if _, err := client.Status(context.Background()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
		if _, open := <-client.Notifications(); open || client.Err() == nil {
			t.Errorf("%q: it goes on", text)
		}
		if _, err := client.Status(context.Background()); err == nil {
			t.Errorf("%q: a call over a connection that has ended", text)
		}
	}
	client := served(t, func(connection net.Conn) {
		for part := bytes.Repeat([]byte("x"), 1<<20); ; {
			if _, err := connection.Write(part); err != nil {
				return
			}
		}
	})
	if _, err := client.Status(context.Background()); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a message without end: %v", err)
	}
}

func TestEventsThatAreNotReadAreCounted(t *testing.T) {
	const sent = unread + 50
	client := served(t, func(connection net.Conn) {
		requests := bufio.NewReader(connection)
		_, _ = requests.ReadString('\n')
		for at := 0; at < sent; at++ {
			_, _ = connection.Write([]byte("{\"subscription\":1,\"event\":{\"kind\":\"new\",\"time_ns\":1,\"more\":2}}\n"))
		}
		_, _ = connection.Write([]byte("{\"id\":1,\"ok\":{\"subscription\":1}}\n"))
		_, _ = requests.ReadString('\n')
		_, _ = connection.Write([]byte("{\"subscription\":1,\"event\":{\"kind\":\"log\",\"time_ns\":2}}\n"))
		_ = connection.Close()
	})
	if _, err := client.Events(context.Background(), Events{}); err != nil {
		t.Fatal(err)
	}
	for at := 0; at < unread; at++ {
		if one := <-client.Notifications(); one.Event == nil || one.Event.Kind != "new" || one.Subscription != 1 {
			t.Fatalf("%d: %+v", at, one)
		}
	}
	_, _ = client.Status(context.Background())
	if one := <-client.Notifications(); one.Lost != sent-unread {
		t.Errorf("%+v", one)
	}
	if one := <-client.Notifications(); one.Event == nil || one.Event.Kind != EventKindLog {
		t.Errorf("%+v", one)
	}
}

func TestAPacerKeepsItsRate(t *testing.T) {
	pacer, now := NewPacer(8*Mbit), time.Now()
	// A packet of 1,000 bytes a millisecond. The first 50 ms are made up for at once.
	sent := 0
	for pacer.take(now, 1000) == 0 {
		sent++
	}
	if sent != 51 {
		t.Errorf("%d at once", sent)
	}
	for end := now.Add(time.Second); now.Before(end); {
		if wait := pacer.take(now, 1000); wait > 0 {
			now = now.Add(wait)
		} else {
			sent++
		}
	}
	if sent < 1050 || sent > 1052 {
		t.Errorf("%d in a second", sent)
	}
	pacer.SetRate(0)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := pacer.Wait(ctx, 1000); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	pacer.SetRate(Gbit)
	if err := pacer.Wait(context.Background(), 1000); err != nil {
		t.Error(err)
	}
}

func TestTheSocketIsFoundByItsInterface(t *testing.T) {
	directory := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", directory)
	if _, err := Find("nosuch0"); err == nil || !strings.Contains(err.Error(), "nosuch0.sock in /run/tidegate nor in "+directory) {
		t.Errorf("%v", err)
	}
	if _, err := Find("../eth0"); err == nil {
		t.Error("a path is no name")
	}
	path := filepath.Join(directory, "tidegate", "nosuch0.sock")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if found, err := Find("nosuch0"); found != path || err != nil {
		t.Errorf("%s, %v", found, err)
	}
	if found, err := only([]string{filepath.Dir(path)}, ""); found != path || err != nil {
		t.Errorf("%s, %v", found, err)
	}
	// A shaper in another network namespace is not meant while one is here.
	var namespace syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/net", &namespace); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(filepath.Dir(path), "nosuch1.sock")
	elsewhere, err := net.Listen("unix", other)
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	go answerStatus(listener, namespace.Ino)
	go answerStatus(elsewhere, namespace.Ino+1)
	if found, err := only([]string{filepath.Dir(path)}, ""); found != path || err != nil {
		t.Errorf("%s, %v", found, err)
	}
}

func TestASocketOfAKilledShaperDoesNotHideOneThatListens(t *testing.T) {
	directory := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", directory)
	sockets := filepath.Join(directory, "tidegate")
	if err := os.Mkdir(sockets, 0o700); err != nil {
		t.Fatal(err)
	}
	names := files("nosuch0")
	if len(names) != 2 {
		t.Fatalf("%v", names)
	}
	stale, lives := filepath.Join(sockets, names[0]), filepath.Join(sockets, names[1])
	killed, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	killed.SetUnlinkOnClose(false)
	killed.Close()
	if found, err := Find("nosuch0"); found != stale || err != nil {
		t.Errorf("%s, %v", found, err)
	}
	listener, err := net.Listen("unix", lives)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := Find("nosuch0"); found != lives || err != nil {
		t.Errorf("%s, %v", found, err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	listener.Close()
	if found, err := Find("nosuch0"); found != stale || err != nil {
		t.Errorf("%s, %v", found, err)
	}
}

func TestADirectoryInWhichOthersMayWriteLeadsNowhere(t *testing.T) {
	base := t.TempDir()
	directory := filepath.Join(base, "tidegate")
	if found := ofUser(base); found != directory {
		t.Errorf("a shaper makes %s, not %q", directory, found)
	}
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{base, directory} {
		if found := ofUser(base); found != directory {
			t.Errorf("%q", found)
		}
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
		if found := ofUser(base); found != "" {
			t.Errorf("everybody may write to %s, and %q", path, found)
		}
		if err := os.Chmod(path, 0o700); err != nil {
			t.Fatal(err)
		}
		// Only root can give a directory away.
		if os.Chown(path, 65534, -1) == nil {
			if found := ofUser(base); os.Geteuid() != 65534 && found != "" {
				t.Errorf("%s is of another user, and %q", path, found)
			}
			if err := os.Chown(path, os.Geteuid(), -1); err != nil {
				t.Fatal(err)
			}
		}
	}
	elsewhere := filepath.Join(base, "elsewhere")
	if err := os.Rename(directory, elsewhere); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, directory); err != nil {
		t.Fatal(err)
	}
	if found := ofUser(base); found != "" {
		t.Errorf("a link, and %q", found)
	}
	if found := ofUser(""); found != "" {
		t.Errorf("%q", found)
	}
}

// answerStatus answers the first call of each connection as a shaper in a network namespace does.
func answerStatus(listener net.Listener, namespace uint64) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		var request struct {
			ID uint64 `json:"id"`
		}
		if json.NewDecoder(connection).Decode(&request) == nil {
			answer := map[string]any{"id": request.ID, "ok": map[string]any{"network_namespace": namespace}}
			_ = json.NewEncoder(connection).Encode(answer)
		}
		_ = connection.Close()
	}
}
