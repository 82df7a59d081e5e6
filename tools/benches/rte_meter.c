// DPDK's rte_meter, colour-blind, one meter, with the arrivals of `cargo bench -p tidegate-core --bench conditioning`: 40 to
// 1,500 B every 0 to 4 ms, drawn at random, 2 and 4 Mbit/s. Prints ns a packet of each kind, a line a round.
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
    struct rte_meter_srtcm_params srtcm = {.cir = 250000, .cbs = 3000, .ebs = 6000};
    struct rte_meter_trtcm_params trtcm = {.cir = 250000, .cbs = 3000, .pir = 500000, .pbs = 6000};
    struct rte_meter_trtcm_rfc4115_params rfc4115 = {.cir = 250000, .cbs = 3000, .eir = 500000, .ebs = 6000};
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
    enum { ARRIVALS = 10000, TURNS = 1000 };
    static uint64_t at[ARRIVALS];
    static uint32_t size[ARRIVALS];
    uint64_t draw = 1, time = 0;
    for (int i = 0; i < ARRIVALS; i++) {
        draw = draw * 6364136223846793005ULL + 1442695040888963407ULL;
        time += (draw >> 33) % (rte_get_tsc_hz() / 250);
        at[i] = time;
        size[i] = 40 + (draw >> 20) % 1461;
    }
    unsigned sum = 0;
    uint64_t base = rte_rdtsc();
    const double n = (double)ARRIVALS * TURNS;
    for (int round = 0; round < 4; round++) {
        double begin = now();
        for (int turn = 0; turn < TURNS; turn++)
            for (int i = 0; i < ARRIVALS; i++)
                sum += rte_meter_srtcm_color_blind_check(&one, &a, base + (round * TURNS + turn) * time + at[i], size[i]);
        double first = now();
        for (int turn = 0; turn < TURNS; turn++)
            for (int i = 0; i < ARRIVALS; i++)
                sum += rte_meter_trtcm_color_blind_check(&two, &b, base + (round * TURNS + turn) * time + at[i], size[i]);
        double second = now();
        for (int turn = 0; turn < TURNS; turn++)
            for (int i = 0; i < ARRIVALS; i++)
                sum += rte_meter_trtcm_rfc4115_color_blind_check(&three, &c, base + (round * TURNS + turn) * time + at[i], size[i]);
        double third = now();
        printf("srtcm %.2f\ntrtcm %.2f\nrfc4115 %.2f\n", (first - begin) / n * 1e9, (second - first) / n * 1e9,
               (third - second) / n * 1e9);
    }
    return sum == 1;
}
