/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Room for what is too large for the 512 bytes of stack that a chain of calls shares. */
#ifndef SLUICE_SCRATCH_H
#define SLUICE_SCRATCH_H

#include "maps.h"
#include "placement.h"

/* Who asks, and for what. */
struct request {
	__u32 service;
	__u32 list;	    /* list id */
	__u8 list_kind;
	__u8 when_empty;
	__u8 masquerade;
	__u8 scheduler; /* enum scheduler */
	__u32 affinity_seconds;
	__u32 service_flags; /* enum service_flag */
	__u32 hash; /* of what the scheduler tells clients apart by, if it does */
	__u64 netns_cookie; /* affinity's client, for a socket */
	addr_t client;	    /* affinity's client, for a packet */
	addr_t hairpin_source; /* what a backend that is the client itself sees as the client */
};

/* What becomes of a packet: the tuple it gets. */
struct step {
	struct tuple to;
	__u32 flags; /* enum flow_flag; of a packet that ends, enum drop_reason */
};

/* An ICMP error, the packet it quotes, and the flow that is of. */
struct icmp_error {
	struct located outer;
	struct located quoted;
	__u32 start;	 /* where the message's own IP header is: bytes from the start of the frame */
	__u32 quote;	 /* where the quoted packet begins: bytes from the start of the frame */
	__be16 ports[2]; /* the quoted packet's: source, destination */
	__u16 checksum;	 /* the message's, as it came */
	__u8 type;
	__u8 zero;
	struct flow_key key;
	struct step step;
};

struct scratch {
	struct flow request; /* the side in the making, of a new flow or a promoted one */
	struct flow reply;
	struct frontend frontend; /* what the packet in hand is addressed to */
	struct request asked;
	struct backend backend;
	struct bpf_fib_lookup fib;
	struct icmp_error error;
};

/* Programs on packets run with bottom halves off: one CPU's scratch has one user. */
MAP(scratch_area, BPF_MAP_TYPE_PERCPU_ARRAY, 1, PREALLOC, __u32, struct scratch);

static __always_inline struct scratch *get_scratch(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&scratch_area, &zero);
}

#endif
