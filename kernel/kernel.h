/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The types of the kernel that the chassis uses, each with the members that it uses and no others: where they are in the
 * running kernel is found out when the program is loaded (CO-RE), by their names. Written from the kernel's documented
 * interface, so that no header of a kernel is needed to compile the chassis.
 */
#ifndef TWIN_KERNEL_H
#define TWIN_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef signed short __s16;
typedef signed int __s32;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;

#define true 1
#define false 0
#define NULL ((void *)0)

enum bpf_map_type { BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_ARRAY = 6 };
enum { BPF_F_MMAPABLE = 1 << 10 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct qdisc_skb_cb {
	u32 pkt_len;
	u16 pkt_segs;
};

typedef struct {
	u32 val;
} kuid_t;

struct cred {
	kuid_t fsuid;
};

struct file {
	const struct cred *f_cred;
};

struct socket {
	struct file *file;
};

struct kernfs_node {
	struct kernfs_node *__parent;
	u64 id;
};

struct cgroup {
	struct kernfs_node *kn;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock_common {
	volatile unsigned char skc_state;
};

struct sock {
	struct sock_common __sk_common;
	struct socket *sk_socket;
	struct sock_cgroup_data sk_cgrp_data;
};

struct sk_buff {
	char cb[48];
	struct sock *sk;
	unsigned char *head, *data;
	/* From `head` on. */
	u32 end;
	u32 len;
	u32 data_len;
	u32 mark;
	/* The record of the connection, and in the lowest bits how the packet belongs to it. */
	unsigned long _nfct;
	/* The index of the interface by which it came in; 0 for one of this host. */
	int skb_iif;
	__be16 protocol;
	u16 network_header;
	u16 mac_header;
};

union nf_inet_addr {
	u32 all[4];
};

struct nf_conntrack_man {
	union nf_inet_addr u3;
};

struct nf_conntrack_tuple {
	struct nf_conntrack_man src;
};

struct nf_conntrack_tuple_hash {
	struct nf_conntrack_tuple tuple;
};

struct nf_conn {
	/* Packets of either direction as they were before addresses were translated. */
	struct nf_conntrack_tuple_hash tuplehash[2];
};

struct skb_shared_info {
	u16 gso_size;
	u32 gso_type;
};

struct qdisc_skb_head {
	u32 qlen;
};

struct gnet_stats_queue {
	u32 backlog;
	u32 drops;
};

struct Qdisc {
	u32 limit;
	struct qdisc_skb_head q;
	struct gnet_stats_queue qstats;
};

#pragma clang attribute pop

struct bpf_iter_num {
	u64 opaque;
} __attribute__((aligned(8)));

struct bpf_dynptr {
	u64 opaque[2];
} __attribute__((aligned(8)));

/* What programs of other kinds have for a packet. */
struct __sk_buff {
	u32 len;
	u32 pkt_type;
	u32 mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority, ingress_ifindex, ifindex, tc_index;
	/* Of the control block, for programs. */
	u32 cb[5];
};

struct bpf_sk_buff_ptr {
	struct sk_buff *skb;
};
struct nlattr;
struct netlink_ext_ack;

/* The operations of a queueing discipline in BPF. */
struct Qdisc_ops {
	int (*enqueue)(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free);
	struct sk_buff *(*dequeue)(struct Qdisc *sch);
	int (*init)(struct Qdisc *sch, struct nlattr *arg, struct netlink_ext_ack *extack);
	void (*reset)(struct Qdisc *sch);
	void (*destroy)(struct Qdisc *sch);
	char id[16];
};

extern void bpf_qdisc_skb_drop(struct sk_buff *skb, struct bpf_sk_buff_ptr *to_free) __attribute__((section(".ksyms")));
extern void bpf_kfree_skb(struct sk_buff *skb) __attribute__((section(".ksyms")));
extern void bpf_qdisc_watchdog_schedule(struct Qdisc *sch, u64 expire, u64 delta_ns) __attribute__((section(".ksyms")));
extern int bpf_dynptr_clone(const struct bpf_dynptr *bytes, struct bpf_dynptr *to) __attribute__((section(".ksyms")));
extern int bpf_dynptr_from_skb(struct __sk_buff *skb, u64 flags, struct bpf_dynptr *bytes) __attribute__((section(".ksyms")));
extern void *bpf_cast_to_kern_ctx(void *context) __attribute__((section(".ksyms")));
extern void *bpf_rdonly_cast(const void *from, u32 type) __attribute__((section(".ksyms")));
extern int bpf_iter_num_new(struct bpf_iter_num *iterator, int start, int end) __attribute__((section(".ksyms")));
extern int *bpf_iter_num_next(struct bpf_iter_num *iterator) __attribute__((section(".ksyms")));
extern void bpf_iter_num_destroy(struct bpf_iter_num *iterator) __attribute__((section(".ksyms")));
extern void bpf_qdisc_bstats_update(struct Qdisc *sch, const struct sk_buff *skb) __attribute__((section(".ksyms")));

#endif
