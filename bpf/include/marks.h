/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The bits of a packet's mark by which the programs, and netfilter, know what was done with it. */
#ifndef SLUICE_MARKS_H
#define SLUICE_MARKS_H

#include <linux/types.h>

const volatile __u32 mark_masquerade = 1 << 14; /* netfilter is to give it the node's address */
const volatile __u32 mark_accept = 1 << 13;	/* an external client's, translated */
const volatile __u32 mark_redirect = 1 << 12;	/* sent back by ingress: not for egress to look at */

/* Newer than the oldest headers we build with. The same as TC_ACT_*. */
#define VERDICT_NEXT -1
#define VERDICT_DROP 2

#endif
