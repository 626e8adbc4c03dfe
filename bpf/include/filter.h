/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The address filter: two loads that spare every packet of no service the
 * look-ups. It may say yes too often, never no wrongly. The control plane
 * computes the same hash (control/layout), a test compares the two.
 */
#ifndef SLUICE_FILTER_H
#define SLUICE_FILTER_H

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "layout.h"

/* One for both families. */
struct filter filter SEC(".data.filter") = {};

/* The bit of an address of `words` words: 1 or 4. */
static __always_inline __u32 hash_words(const __u32 *address, __u32 words)
{
	__u32 mixed = address[0];

	if (words == 4) {
		mixed = mixed * 0x9E3779B1u + address[1] * 0x85EBCA77u + address[2] * 0xC2B2AE3Du +
			address[3] * 0x27D4EB2Fu;
		mixed ^= mixed >> 15;
	}
	return mixed * 0x9E3779B1u >> (32 - LAYOUT_FILTER_BITS);
}

static __always_inline bool is_frontend_bit(__u32 hash)
{
	return filter.frontend_bits[hash >> 6] >> (hash & 63) & 1;
}

static __always_inline bool is_backend_bit(__u32 hash)
{
	return filter.backend_bits[hash >> 6] >> (hash & 63) & 1;
}

/* Is an address of `words` words in one of the ranges? */
static __always_inline bool is_in_ranges(const struct service_cidrs *known, const __u32 *address, __u32 words)
{
	for (__u32 i = 0; i < LAYOUT_SERVICE_CIDRS && i < known->count; i++) {
		const struct service_cidr *range = &known->ranges[i];
		__u32 differ = 0;

		for (__u32 word = 0; word < words; word++)
			differ |= (address[word] & range->mask[word]) ^ range->address[word];
		if (!differ)
			return true;
	}
	return false;
}

static __always_inline __u32 address_hash(const addr_t *address)
{
	return hash_words((const void *)address->bytes, sizeof(*address) / 4);
}

static __always_inline bool may_be_frontend(const addr_t *address)
{
	return is_frontend_bit(address_hash(address));
}

static __always_inline bool may_be_backend(const addr_t *address)
{
	return is_backend_bit(address_hash(address));
}

/* An address that ClusterIPs are given out from, whether a Service has it or not. */
static __always_inline bool is_in_service_cidr(const addr_t *address)
{
	return is_in_ranges(sizeof(*address) == 4 ? &filter.service_cidrs4 : &filter.service_cidrs6,
			    (const void *)address->bytes, sizeof(*address) / 4);
}

#endif
