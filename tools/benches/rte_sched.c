// Enqueue and dequeue of 32 packets through DPDK's rte_sched with every pipe busy; prints ns a packet, a line a round.
// usage: rte_sched --no-huge -m 2048 --no-pci -- PIPES   (a power of two)
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// Seconds of processor time, which other processes disturb less.
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    int used = rte_eal_init(argc, argv);
    if (used < 0) return 1;
    int pipes = argc - used > 1 ? atoi(argv[used + 1]) : 4096;
    const uint64_t fast = 3000000000ULL;
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
    struct rte_mempool *pool = rte_pktmbuf_pool_create("pool", 65535, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
    if (!pool) return 1;
    struct rte_mbuf *in[32], *out[32];
    unsigned draw = 1;
    for (int round = 0; round < 4; round++) {
        long left = 0;
        double begin = now();
        while (left < 3000000) {
            if (!rte_pktmbuf_alloc_bulk(pool, in, 32)) {
                for (int i = 0; i < 32; i++) {
                    draw = draw * 1664525 + 1013904223;
                    in[i]->pkt_len = in[i]->data_len = 64;
                    rte_sched_port_pkt_write(port, in[i], 0, (draw >> 8) % pipes, 12, (draw >> 4) & 3, RTE_COLOR_GREEN);
                }
                rte_sched_port_enqueue(port, in, 32);
            }
            int n = rte_sched_port_dequeue(port, out, 32);
            if (n) rte_pktmbuf_free_bulk(out, n);
            left += n;
            if (now() - begin > 20) break;
        }
        printf("packet %.2f\n", (now() - begin) / left * 1e9);
    }
}
