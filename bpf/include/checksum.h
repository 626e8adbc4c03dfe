/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The arithmetic of the Internet checksum (RFC 1071, RFC 1624). */
#ifndef SLUICE_CHECKSUM_H
#define SLUICE_CHECKSUM_H

#include <linux/types.h>

/* What a sum changes by when `from` becomes `to`. */
static __always_inline __u64 sum_change(__u32 from, __u32 to)
{
	return (__u64)(__u32)~from + to;
}

static __always_inline __u32 fold_to_32(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	return (sum & 0xffffffff) + (sum >> 32);
}

static __always_inline __u16 fold_to_16(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

#endif
