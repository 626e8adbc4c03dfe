/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the programs tell the control plane about, one record of `events` each; the rules of layout.h hold. */
#ifndef SLUICE_EVENT_H
#define SLUICE_EVENT_H

#include <linux/types.h>

/*
 * A packet, or a call of a socket, that was ended: some of them, see report.h.
 * Addresses of IPv4 are in the first four bytes.
 */
struct event {
	__u64 time_ns; /* CLOCK_MONOTONIC_COARSE */
	__u8 source[16]; /* network order; of a call: zero, as its port */
	__u8 destination[16];
	__be16 source_port; /* zero where a fragment does not tell */
	__be16 destination_port;
	__u32 ifindex; /* the device at whose hook it was; of a call: 0 */
	__u32 process; /* of a call: whose, as the kernel counts them; of a packet: 0 */
	__u8 reason;   /* enum drop_reason */
	__u8 protocol; /* IPPROTO_* */
	__u8 family;   /* 4 or 6 */
	__u8 direction; /* enum flow_direction */
};

_Static_assert(sizeof(struct event) == 56, "struct event");

#endif
