/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the headers of either family say of where the transport header is. */
#ifndef SLUICE_PLACEMENT_H
#define SLUICE_PLACEMENT_H

#include <stdbool.h>
#include <linux/in.h>
#include <linux/types.h>
#include "layout.h"

struct placement {
	__u32 transport; /* bytes from the start of the frame */
	__u32 datagram;	 /* the id that its fragments share, as in the header */
	__u8 protocol;
	__u8 datagram_protocol; /* a part of the id in IPv4 (RFC 791), not in IPv6 (RFC 8200, 4.5): 0 */
	bool is_fragment;
	bool is_later; /* a fragment that is not the first: no transport header */
};

/* What an IP header says, wherever in the frame it is: the packet's own, or one that an ICMP message quotes. */
struct located {
	struct placement at;
	addr_t source;
	addr_t destination;
	__u32 end; /* where the datagram ends, by its header: bytes from the start of the frame */
};

/* Does the transport header begin with two ports that the programs know how to rewrite? */
static __always_inline bool has_ports(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_SCTP;
}

/* An offset into the headers, for the verifier: the compiler would drop a mask that it knows to be needless. */
static __always_inline __u32 bounded(__u32 offset)
{
	asm volatile("%0 &= 0x3ff" : "+r"(offset));
	return offset;
}

#endif
