/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The address filter: two loads that spare every packet of no service the
 * look-ups. It may say yes too often, never no wrongly. The control plane
 * computes the same hash (control/layout), a test compares the two.
 */
#ifndef SLUICE_FILTER_H
#define SLUICE_FILTER_H

#include <stdbool.h>
#include "maps.h"

static __always_inline __u32 address_hash(const addr_t *address)
{
	const __u32 *words = (const void *)address->bytes;
#if FAMILY == 4
	__u32 mixed = words[0];
#else
	__u32 mixed = words[0] * 0x9E3779B1u + words[1] * 0x85EBCA77u + words[2] * 0xC2B2AE3Du +
		      words[3] * 0x27D4EB2Fu;

	mixed ^= mixed >> 15;
#endif
	return mixed * 0x9E3779B1u >> (32 - LAYOUT_FILTER_BITS);
}

static __always_inline bool may_be_frontend(const addr_t *address)
{
	__u32 hash = address_hash(address);

	return filter.frontend_bits[hash >> 6] >> (hash & 63) & 1;
}

/* An address that ClusterIPs are given out from, whether a Service has it or not. */
static __always_inline bool is_in_service_cidr(const addr_t *address)
{
	const struct service_cidrs *known = &filter.CONCAT(service_cidrs, FAMILY);
	const __u32 *words = (const void *)address->bytes;

	for (__u32 i = 0; i < LAYOUT_SERVICE_CIDRS && i < known->count; i++) {
		const struct service_cidr *range = &known->ranges[i];
		__u32 differ = (words[0] & range->mask[0]) ^ range->address[0];

#if FAMILY == 6
		for (int word = 1; word < 4; word++)
			differ |= (words[word] & range->mask[word]) ^ range->address[word];
#endif
		if (!differ)
			return true;
	}
	return false;
}

static __always_inline bool may_be_backend(const addr_t *address)
{
	__u32 hash = address_hash(address);

	return filter.backend_bits[hash >> 6] >> (hash & 63) & 1;
}

#endif
