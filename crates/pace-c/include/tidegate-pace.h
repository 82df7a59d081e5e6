/* UDP sockets that send at a rate: each datagram leaves when it is due.
 *
 *     cc -o sender sender.c -ltidegate-pace -lm
 *
 *     struct tidegate_pace *socket = tidegate_pace_connect("192.0.2.1:5000", &(struct tidegate_pace_options){.rate_bps = 20000000});
 *     if (!socket) perror("connect");
 *     long long sent = tidegate_pace_send(socket, data, 1200);    // blocks until it is time
 *     if (sent < 0) fprintf(stderr, "%s\n", strerror((int)-sent));
 *     tidegate_pace_close(socket);
 *
 * Functions that return a number return -errno when they fail. Threads may share a socket, but for closing it. Rates count
 * payload. The library needs Linux. It never writes to standard output or standard error, and no call keeps a pointer.
 */
#ifndef TIDEGATE_PACE_H
#define TIDEGATE_PACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A paced socket. */
struct tidegate_pace;

/* What keeps departures apart. */
enum tidegate_pace_backend {
    TIDEGATE_PACE_AUTO = 0,          /* the first of the others that the kernel supports on the way to the peer */
    TIDEGATE_PACE_TIMERS = 1,        /* timers of the process */
    TIDEGATE_PACE_TXTIME = 2,        /* SO_TXTIME: fq or etf holds each datagram until its time */
    TIDEGATE_PACE_MAX_RATE = 3       /* SO_MAX_PACING_RATE: fq spaces what the process hands over */
};

/* How a socket sends. Zero means the default, but for the rate. */
struct tidegate_pace_options {
    uint64_t rate_bps;       /* the rate in bit/s; above zero */
    uint64_t burst_ns;       /* the longest batch of tidegate_pace_send_segments, as its time at the rate; default 250 us */
    uint64_t catch_up_ns;    /* the longest time without datagrams that is made up for; default 50 ms */
    uint32_t spin_permille;  /* the share of a core, of 1000, that may be spent on ending waits exactly; default none */
    uint32_t backend;        /* enum tidegate_pace_backend */
};

/* The state of a socket's schedule. */
struct tidegate_pace_status {
    uint64_t rate_bps;   /* the rate in bit/s */
    uint64_t packets;    /* datagrams or batches sent */
    uint64_t bytes;      /* bytes of payload sent */
    uint64_t restarts;   /* how often a gap was too long to be made up for */
    uint64_t late_ns;    /* how far it is behind its schedule */
    uint32_t paused;     /* 1 in a pause */
    uint32_t backend;    /* enum tidegate_pace_backend, never TIDEGATE_PACE_AUTO */
};

/* Opens a socket to "host:port". Looking up a name blocks. Returns NULL and sets errno when it fails: EINVAL for options that
 * cannot be, EOPNOTSUPP for a back end that the kernel does not have on the way to the peer. */
struct tidegate_pace *tidegate_pace_connect(const char *peer, const struct tidegate_pace_options *options);

/* Paces a connected UDP socket of the caller's, which remains the caller's to close: the library has a duplicate. Returns NULL
 * and sets errno as tidegate_pace_connect does. */
struct tidegate_pace *tidegate_pace_from_fd(int fd, const struct tidegate_pace_options *options);

/* Blocks until the datagram may be sent, and sends it. Returns its length. */
int64_t tidegate_pace_send(struct tidegate_pace *socket, const void *data, size_t length);

/* Blocks until all data is sent in datagrams of size bytes, the last of which may be shorter, in batches with time between
 * them. Returns the length of the data. */
int64_t tidegate_pace_send_segments(struct tidegate_pace *socket, const void *data, size_t length, uint16_t size);

/* Sends the datagram if it is time, and never blocks. Returns its length; or -EAGAIN, with *not_before_ns the time of
 * CLOCK_MONOTONIC, in ns, at which to try again: for timerfd_settime(2) with TFD_TIMER_ABSTIME. That is UINT64_MAX in a pause,
 * and now where the socket is full. */
int64_t tidegate_pace_try_send(struct tidegate_pace *socket, const void *data, size_t length, uint64_t *not_before_ns);

/* Sets the rate in bit/s from now on; wakes threads that wait. Returns 0. */
int tidegate_pace_set_rate(struct tidegate_pace *socket, uint64_t rate_bps);

/* Sends nothing until tidegate_pace_resume. Returns 0. */
int tidegate_pace_pause(struct tidegate_pace *socket);

/* Ends a pause, which is not made up for; wakes threads that wait. Returns 0. */
int tidegate_pace_resume(struct tidegate_pace *socket);

/* Writes the state of the schedule to *status. Returns 0. */
int tidegate_pace_status(const struct tidegate_pace *socket, struct tidegate_pace_status *status);

/* The descriptor of the socket, for receiving and for options. What is sent through it is not paced. */
int tidegate_pace_fd(const struct tidegate_pace *socket);

/* Closes the socket. No other thread may use it any more. NULL is ignored. */
void tidegate_pace_close(struct tidegate_pace *socket);

#ifdef __cplusplus
}
#endif
#endif
