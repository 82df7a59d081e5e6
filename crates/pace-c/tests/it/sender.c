/* Every function of the header, against a receiver on loopback. Exit code 0 when all holds. */
#define _POSIX_C_SOURCE 200809L
#include "tidegate-pace.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define HOLDS(condition) \
    do { \
        if (!(condition)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #condition, errno); \
            exit(1); \
        } \
    } while (0)

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static char data[50500];

static void wrong_use(const char *peer, struct tidegate_pace *socket)
{
    struct tidegate_pace_options options = {.rate_bps = 0};
    struct tidegate_pace_status status;
    uint64_t time;

    errno = 0;
    HOLDS(!tidegate_pace_connect(peer, &options) && errno == EINVAL);
    HOLDS(!tidegate_pace_connect(NULL, &options) && errno == EINVAL);
    HOLDS(!tidegate_pace_connect(peer, NULL) && errno == EINVAL);
    options.rate_bps = 8000000;
    options.spin_permille = 1001;
    HOLDS(!tidegate_pace_connect(peer, &options) && errno == EINVAL);
    options.spin_permille = 0;
    options.backend = 9;
    HOLDS(!tidegate_pace_connect(peer, &options) && errno == EINVAL);
    options.backend = TIDEGATE_PACE_AUTO;
    HOLDS(!tidegate_pace_connect("127.0.0.1", &options) && errno != 0);
    HOLDS(!tidegate_pace_from_fd(-1, &options) && errno == EINVAL);
    HOLDS(!tidegate_pace_from_fd(1000000, &options) && errno == EBADF);
    HOLDS(tidegate_pace_send(NULL, data, 1) == -EINVAL);
    HOLDS(tidegate_pace_send(socket, NULL, 1) == -EINVAL);
    HOLDS(tidegate_pace_send(socket, data, SIZE_MAX) == -EINVAL);
    HOLDS(tidegate_pace_send_segments(socket, data, 10, 0) == -EINVAL);
    HOLDS(tidegate_pace_try_send(NULL, data, 1, &time) == -EINVAL);
    HOLDS(tidegate_pace_set_rate(socket, 0) == -EINVAL && tidegate_pace_set_rate(NULL, 1) == -EINVAL);
    HOLDS(tidegate_pace_status(socket, NULL) == -EINVAL && tidegate_pace_status(NULL, &status) == -EINVAL);
    HOLDS(tidegate_pace_pause(NULL) == -EINVAL && tidegate_pace_resume(NULL) == -EINVAL);
    HOLDS(tidegate_pace_fd(NULL) == -EINVAL);
    tidegate_pace_close(NULL);
}

static void from_a_descriptor(struct tidegate_pace *other)
{
    struct tidegate_pace_options options = {.rate_bps = 40000000, .burst_ns = 500000, .catch_up_ns = 1000000, .backend = TIDEGATE_PACE_TIMERS};
    uint64_t start = now();
    struct tidegate_pace *socket = tidegate_pace_from_fd(tidegate_pace_fd(other), &options);

    HOLDS(socket);
    /* 50,500 bytes at 5 MB/s, of which 2500 may leave at once. */
    HOLDS(tidegate_pace_send_segments(socket, data, sizeof data, 1000) == (int64_t)sizeof data);
    HOLDS(now() - start >= 9600000);
    tidegate_pace_close(socket);
}

int main(int count, char **arguments)
{
    struct tidegate_pace_options options = {.rate_bps = 8000000};
    struct tidegate_pace_status status;
    struct tidegate_pace *socket;
    uint64_t start = now(), not_before = 0;

    HOLDS(count == 2);
    HOLDS((socket = tidegate_pace_connect(arguments[1], &options)));
    /* A millisecond each. */
    for (int sent = 0; sent < 20; sent++)
        HOLDS(tidegate_pace_send(socket, data, 1000) == 1000);
    HOLDS(now() - start >= 19000000);
    HOLDS(tidegate_pace_status(socket, &status) == 0);
    HOLDS(status.rate_bps == 8000000 && status.packets == 20 && status.bytes == 20000 && !status.paused);
    HOLDS(status.backend >= TIDEGATE_PACE_TIMERS && status.backend <= TIDEGATE_PACE_MAX_RATE);

    /* 800 s for the next. */
    HOLDS(tidegate_pace_set_rate(socket, 10) == 0);
    while (tidegate_pace_try_send(socket, data, 1000, &not_before) == 1000) {}
    HOLDS(tidegate_pace_try_send(socket, data, 1000, &not_before) == -EAGAIN && not_before > now());
    HOLDS(tidegate_pace_try_send(socket, data, 1000, NULL) == -EAGAIN);
    HOLDS(tidegate_pace_pause(socket) == 0 && tidegate_pace_status(socket, &status) == 0 && status.paused == 1);
    HOLDS(tidegate_pace_try_send(socket, data, 1000, &not_before) == -EAGAIN && not_before == UINT64_MAX);
    HOLDS(tidegate_pace_resume(socket) == 0 && tidegate_pace_set_rate(socket, 8000000) == 0);
    HOLDS(tidegate_pace_send(socket, data, 1000) == 1000);

    from_a_descriptor(socket);
    wrong_use(arguments[1], socket);
    tidegate_pace_close(socket);
    return 0;
}
