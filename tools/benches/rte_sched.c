// Enqueue and dequeue of 32 packets through DPDK's rte_sched with every pipe busy; prints ns a packet, a line a round.
// usage: rte_sched --no-huge -m 3000 --no-pci -- PIPES [small | uniform | zipf]
// PIPES is a power of two. With small, packets are of 64 bytes. With the others they are of 64 to 1,500, pipes are drawn as
// src/traffic.rs draws flows, and as many packets are queued as there are pipes.
#include <math.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DRAWS (1 << 22)

struct draw {
    uint32_t pipe, size;
};

// Seconds of processor time, which other processes disturb less.
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static uint32_t below(uint64_t *state, uint32_t bound) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return ((z ^ z >> 31) >> 32) * bound >> 32;
}

// Made before the measurement and read in their order, as in src/traffic.rs.
static struct draw *draws(uint32_t pipes, const char *traffic) {
    struct draw *draws = malloc(DRAWS * sizeof *draws);
    uint64_t state = 0x5eed;
    for (int i = 0; draws && i < DRAWS; i++) {
        uint32_t pipe = below(&state, pipes);
        if (!strcmp(traffic, "zipf")) {
            uint64_t rank = (uint64_t)pow(pipes + 1.0, pipe / (double)pipes) - 1;
            pipe = (rank < pipes ? rank : pipes - 1) * 2654435761 % pipes;
        }
        uint32_t size = 64 + below(&state, 1437);
        draws[i] = (struct draw){pipe, strcmp(traffic, "small") ? size : 64};
    }
    return draws;
}

// The traffic classes and queues of a pipe are used alike: four queues of best effort.
static void offer(struct rte_sched_port *port, struct rte_mbuf **in, int count, const struct draw *draws) {
    static unsigned next;
    for (int i = 0; i < count; i++, next++) {
        const struct draw *draw = draws + next % DRAWS;
        in[i]->pkt_len = in[i]->data_len = draw->size;
        rte_sched_port_pkt_write(port, in[i], 0, draw->pipe, 12, next & 3, RTE_COLOR_GREEN);
    }
    rte_sched_port_enqueue(port, in, count);
}

int main(int argc, char **argv) {
    int used = rte_eal_init(argc, argv);
    if (used < 0) return 1;
    int pipes = argc - used > 1 ? atoi(argv[used + 1]) : 4096;
    const char *traffic = argc - used > 2 ? argv[used + 2] : "small";
    // So fast that the line is never what a packet waits for.
    const uint64_t fast = strcmp(traffic, "small") ? 24000000000ULL : 3000000000ULL;
    struct rte_sched_pipe_params pipe = {.tb_rate = 1250000000ULL, .tb_size = 1000000, .tc_period = 40, .tc_ov_weight = 1};
    struct rte_sched_subport_profile_params profile = {.tb_rate = fast, .tb_size = 1000000, .tc_period = 10};
    struct rte_sched_subport_params subport = {
        .n_pipes_per_subport_enabled = pipes, .pipe_profiles = &pipe, .n_pipe_profiles = 1, .n_max_pipe_profiles = 1};
    for (int i = 0; i < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; i++) {
        pipe.tc_rate[i] = 1250000000ULL;
        profile.tc_rate[i] = fast;
        subport.qsize[i] = 64;
    }
    for (int i = 0; i < RTE_SCHED_BE_QUEUES_PER_PIPE; i++) pipe.wrr_weights[i] = 1;
    struct rte_sched_port_params params = {.name = "port", .rate = fast, .mtu = 1522, .frame_overhead = 24,
        .n_subports_per_port = 1, .subport_profiles = &profile, .n_subport_profiles = 1, .n_max_subport_profiles = 1,
        .n_pipes_per_subport = pipes < 64 ? 64 : pipes};
    struct rte_sched_port *port = rte_sched_port_config(&params);
    if (!port || rte_sched_subport_config(port, 0, &subport, 0)) return 1;
    for (int i = 0; i < pipes; i++)
        if (rte_sched_pipe_config(port, 0, i, 0)) return 1;
    struct rte_mempool *pool = rte_pktmbuf_pool_create("pool", 131071, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
    struct draw *drawn = draws(pipes, traffic);
    if (!pool || !drawn) return 1;
    struct rte_mbuf *in[32], *out[32];
    if (strcmp(traffic, "small"))
        for (int queued = 0; queued < pipes && !rte_pktmbuf_alloc_bulk(pool, in, 32); queued += 32)
            offer(port, in, 32, drawn);
    for (int round = 0; round < 4; round++) {
        long left = 0;
        double begin = now();
        while (left < 3000000) {
            if (!rte_pktmbuf_alloc_bulk(pool, in, 32)) offer(port, in, 32, drawn);
            int n = rte_sched_port_dequeue(port, out, 32);
            if (n) rte_pktmbuf_free_bulk(out, n);
            left += n;
            if (now() - begin > 20) break;
        }
        printf("packet %.2f\n", (now() - begin) / left * 1e9);
    }
}
