package tidegate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Find returns the path of the control socket of the shaper of an interface; with an empty name, of the only one that runs, of
// several the one in the network namespace of this process.
func Find(name string) (string, error) {
	directories := []string{Directory}
	if directory := ofUser(os.Getenv("XDG_RUNTIME_DIR")); directory != "" {
		directories = append(directories, directory)
	}
	looked := strings.Join(directories, " nor in ")
	if name == "" {
		return only(directories, looked)
	}
	if strings.ContainsRune(name, '/') {
		return "", fmt.Errorf("%q is not the name of an interface", name)
	}
	var paths []string
	for _, directory := range directories {
		for _, file := range files(name) {
			path := filepath.Join(directory, file)
			if _, err := os.Stat(path); err == nil {
				paths = append(paths, path)
			}
		}
	}
	if len(paths) == 0 {
		return "", fmt.Errorf("no tidegate is running here: there is no %s.sock in %s; start one with `tidegate run`", name, looked)
	}
	return firstServed(paths), nil
}

// ofUser returns the directory of sockets in $XDG_RUNTIME_DIR; an empty name unless both are of this user or of root and not
// writable for everybody, so that the environment of another user leads nobody to a daemon of theirs.
func ofUser(base string) string {
	directory := filepath.Join(base, "tidegate")
	if base == "" || !isOurs(base) {
		return ""
	}
	if _, err := os.Lstat(directory); !isOurs(directory) && !os.IsNotExist(err) {
		return ""
	}
	return directory
}

func isOurs(path string) bool {
	data, err := os.Lstat(path)
	if err != nil || !data.IsDir() || data.Mode().Perm()&0o002 != 0 {
		return false
	}
	owner, ok := data.Sys().(*syscall.Stat_t)
	return ok && (owner.Uid == 0 || int(owner.Uid) == os.Geteuid())
}

// firstServed returns the first of some sockets at which a process listens; where none does, the first. A single one is not asked.
func firstServed(paths []string) string {
	if len(paths) > 1 {
		for _, path := range paths {
			if listens(path) {
				return path
			}
		}
	}
	return paths[0]
}

// files returns the names that the socket of an interface may have: with the number of the network namespace where another one
// has an interface of the same name.
func files(name string) []string {
	plain := name + ".sock"
	var namespace syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/net", &namespace); err != nil {
		return []string{plain}
	}
	return []string{fmt.Sprintf("%s@%d.sock", name, namespace.Ino), plain}
}

// only returns the socket at which a process listens, if there is just one.
func only(directories []string, looked string) (string, error) {
	var found []string
	for _, directory := range directories {
		paths, _ := filepath.Glob(filepath.Join(directory, "*.sock"))
		for _, path := range paths {
			if listens(path) {
				found = append(found, path)
			}
		}
	}
	if len(found) > 1 {
		var own []string
		for _, path := range found {
			if isOwn(path) {
				own = append(own, path)
			}
		}
		if len(own) > 0 {
			found = own
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no tidegate is running here: nothing listens in %s; start one with `tidegate run`", looked)
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("several tidegates are running: %s; name the interface of one", strings.Join(found, ", "))
	}
}

// isOwn says whether the shaper that listens at a socket is in the network namespace of this process. It is asked, since an
// ordinary user cannot look up the namespace of a process of another user.
func isOwn(path string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	client, err := Connect(ctx, path)
	if err != nil {
		return false
	}
	defer client.Close()
	status, err := client.Status(ctx)
	var namespace syscall.Stat_t
	if err != nil || syscall.Stat("/proc/self/ns/net", &namespace) != nil {
		return false
	}
	return status.NetworkNamespace != nil && *status.NetworkNamespace == namespace.Ino
}

// listens says whether a process listens at a socket, also one that keeps this user out or is stopped.
func listens(path string) bool {
	connection, err := net.DialTimeout("unix", path, ConnectTimeout)
	if err == nil {
		_ = connection.Close()
		return true
	}
	return os.IsTimeout(err) || errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EAGAIN)
}
