// DPDK's rte_meter, colour-blind, one meter; prints ns a packet of each kind, a line a round.
// usage: rte_meter --no-huge -m 512 --no-pci
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_meter.h>
#include <stdio.h>
#include <time.h>

// Seconds of processor time, which other processes disturb less.
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    if (rte_eal_init(argc, argv) < 0) return 1;
    struct rte_meter_srtcm_params srtcm = {.cir = 1000000, .cbs = 3000, .ebs = 6000};
    struct rte_meter_trtcm_params trtcm = {.cir = 1000000, .cbs = 3000, .pir = 2000000, .pbs = 6000};
    struct rte_meter_trtcm_rfc4115_params rfc4115 = {.cir = 1000000, .cbs = 3000, .eir = 1000000, .ebs = 6000};
    struct rte_meter_srtcm_profile a;
    struct rte_meter_trtcm_profile b;
    struct rte_meter_trtcm_rfc4115_profile c;
    rte_meter_srtcm_profile_config(&a, &srtcm);
    rte_meter_trtcm_profile_config(&b, &trtcm);
    rte_meter_trtcm_rfc4115_profile_config(&c, &rfc4115);
    struct rte_meter_srtcm one;
    struct rte_meter_trtcm two;
    struct rte_meter_trtcm_rfc4115 three;
    rte_meter_srtcm_config(&one, &a);
    rte_meter_trtcm_config(&two, &b);
    rte_meter_trtcm_rfc4115_config(&three, &c);
    const long n = 20000000;
    unsigned sum = 0;
    for (int round = 0; round < 4; round++) {
        uint64_t cycles = rte_rdtsc() + (uint64_t)round * n * 2000;
        double begin = now();
        for (long i = 0; i < n; i++) sum += rte_meter_srtcm_color_blind_check(&one, &a, cycles + i * 2000, 1400);
        double first = now();
        for (long i = 0; i < n; i++) sum += rte_meter_trtcm_color_blind_check(&two, &b, cycles + i * 2000, 1400);
        double second = now();
        for (long i = 0; i < n; i++) sum += rte_meter_trtcm_rfc4115_color_blind_check(&three, &c, cycles + i * 2000, 1400);
        double third = now();
        printf("srtcm %.2f\ntrtcm %.2f\nrfc4115 %.2f\n", (first - begin) / n * 1e9, (second - first) / n * 1e9,
               (third - second) / n * 1e9);
    }
    return sum == 1;
}
