/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reports: some of the packets and calls that end are told to the control plane.
 * All are counted (stats.h); a flood of them must cost next to nothing, so of
 * each reason only the first few a second become events, on each CPU. The second
 * is the sweep's: without a daemon to read them, events soon stop.
 */
#ifndef SLUICE_REPORT_H
#define SLUICE_REPORT_H

#include "stats.h"

#define EVENTS_A_SECOND 4

/* How many events of a reason there were in a second. */
struct sample {
	__u32 second; /* of the sweep's clock */
	__u32 count;
};

MAP(scratch_samples, BPF_MAP_TYPE_PERCPU_ARRAY, DROP_REASON_COUNT, PREALLOC, __u32, struct sample);

static __always_inline bool is_sampled(__u32 reason)
{
	struct sample *sample = bpf_map_lookup_elem(&scratch_samples, &reason);
	__u32 now = sweep_clock();

	if (!sample)
		return false;
	if (sample->second != now) {
		sample->second = now;
		sample->count = 0;
	}
	if (sample->count >= EVENTS_A_SECOND)
		return false;
	sample->count++;
	return true;
}

/* Room for an event, to be filled and submitted; NULL: enough of these, or nobody reads them. */
static __always_inline struct event *begin_event(__u32 reason, __u8 protocol)
{
	struct event *event;

	if (!is_sampled(reason))
		return NULL;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event)
		return NULL;
	__builtin_memset(event, 0, sizeof(*event));
	event->time_ns = bpf_ktime_get_coarse_ns();
	event->reason = reason;
	event->protocol = protocol;
	event->family = FAMILY;
	return event;
}

/* A packet that ends, or one of a flow that an ICMP error is about. */
static __noinline int report_packet(const struct flow_key *key, __u32 ifindex, __u32 reason)
{
	struct event *event = begin_event(reason, key->protocol);

	if (!event)
		return 0;
	*(addr_t *)event->source = key->tuple.source;
	*(addr_t *)event->destination = key->tuple.destination;
	event->source_port = key->tuple.source_port;
	event->destination_port = key->tuple.destination_port;
	event->ifindex = ifindex;
	event->direction = key->direction;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

/* A call of a socket to this address that ends. */
static __noinline int report_call(const addr_t *address, __be16 port, __u8 protocol, __u32 reason)
{
	struct event *event = begin_event(reason, protocol);

	if (!event)
		return 0;
	*(addr_t *)event->destination = *address;
	event->destination_port = port;
	event->process = bpf_get_current_pid_tgid() >> 32;
	bpf_ringbuf_submit(event, 0);
	return 0;
}

#endif
