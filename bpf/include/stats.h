/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters, and the clocks. */
#ifndef SLUICE_STATS_H
#define SLUICE_STATS_H

#include <stdbool.h>
#include "maps.h"

static __always_inline void count_drop(__u32 reason)
{
	__u64 *count = bpf_map_lookup_elem(&drop_stats, &reason);

	if (count)
		(*count)++;
}

static __always_inline void add_packet(struct service_stats *stats, bool is_request, __u32 bytes)
{
	if (is_request) {
		stats->request_packets++;
		stats->request_bytes += bytes;
	} else {
		stats->reply_packets++;
		stats->reply_bytes += bytes;
	}
}

static __always_inline void count_packet(__u32 service, bool is_request, __u32 bytes)
{
	struct service_stats *stats = bpf_map_lookup_elem(&service_stats, &service);

	if (stats)
		add_packet(stats, is_request, bytes);
}

/* `bytes`: of the packet that it begins with; 0: a socket's, whose packets do not come this way. */
static __always_inline void count_connection(__u32 service, __u32 bytes)
{
	struct service_stats *stats = bpf_map_lookup_elem(&service_stats, &service);

	if (!stats)
		return;
	stats->connections++;
	if (bytes)
		add_packet(stats, true, bytes);
}

static __always_inline void count_refused(__u32 service, __u32 reason)
{
	struct service_stats *stats = bpf_map_lookup_elem(&service_stats, &service);

	if (stats)
		stats->refused++;
	count_drop(reason);
}

/* Milliseconds for the ages of unconfirmed flows; wraps after 49 days. */
static __always_inline __u32 clock_ms(void)
{
	return bpf_ktime_get_coarse_ns() / 1000000;
}

static __always_inline __u32 clock_seconds(void)
{
	return bpf_ktime_get_coarse_ns() / 1000000000;
}

/*
 * Seconds for the ages of confirmed flows. The sweep moves it on, so an
 * established packet reads no clock, and no flow ages while nobody sweeps.
 */
static __always_inline __u32 sweep_clock(void)
{
	return *(volatile __u32 *)&state.now;
}

#endif
