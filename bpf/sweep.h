/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sweep: ends what both sides of a flow have long been silent about. It
 * runs in the kernel, a bounded number of entries a call, and goes on where the
 * last call stopped.
 */
#ifndef SLUICE_SWEEP_H
#define SLUICE_SWEEP_H

#include "include/flow.h"

/*
 * The bounds and counts of the running call. A global and not the callback's
 * context: from there the verifier would follow each value separately.
 */
struct {
	__u32 at;    /* entries passed over so far */
	__u32 until; /* where to stop */
	__u32 looked;
	__u32 expired;
} sweeping = {};

static __always_inline __u32 allowed_silence(const struct flow *flow, const struct flow *twin)
{
	if (flow->key.protocol == IPPROTO_UDP)
		return flow->state == FLOW_STATE_NEW || (twin && twin->state == FLOW_STATE_NEW) ?
			       udp_unreplied_seconds :
			       udp_replied_seconds;
	if (!twin || is_closed(flow, twin))
		return tcp_closing_seconds;
	if (flow->state == FLOW_STATE_CLOSING || twin->state == FLOW_STATE_CLOSING)
		return tcp_half_closed_seconds;
	return tcp_established_seconds;
}

/*
 * Of a flow that ends in silence, and may be alive at both ends, the reply's key is kept for as long as there is room
 * for: what the backend may still send is known by it.
 */
static __always_inline void remember(struct flow *flow, struct flow_key *key)
{
	flow->flags |= FLOW_FLAG_PROMOTED;
	bpf_map_update_elem(&embryonic, key, flow, BPF_ANY);
}

static long sweep_flow(void *map, struct flow_key *entry, struct flow *flow, void *context)
{
	struct flow_key key = *entry, twin_of;
	struct flow *twin;
	__u32 allowed;

	(void)context;
	if (sweeping.at++ < state.sweep_from)
		return 0;
	if (sweeping.at > sweeping.until)
		return 1;
	sweeping.looked++;
	/* Who has packets in hand tells of it himself. */
	if (flow->traffic && flow->last_seen != sweep_clock())
		tell_traffic(flow);
	twin_key(&twin_of, flow);
	twin = find_flow(&flows, &twin_of);
	allowed = allowed_silence(flow, twin);
	if (!is_flow(flow, &key) || !is_silent(flow, allowed) || (twin && !is_silent(twin, allowed)))
		return 0;
	if (twin && (key.protocol == IPPROTO_UDP || !is_closed(flow, twin))) {
		if (flow->flags & FLOW_FLAG_REQUEST)
			remember(twin, &twin_of);
		else
			remember(flow, &key);
	}
	end_load(flow);
	bpf_map_delete_elem(map, &key);
	sweeping.expired++;
	if (twin) {
		tell_traffic(twin);
		bpf_map_delete_elem(map, &twin_of);
		sweeping.expired++;
	}
	return 0;
}

static __always_inline int sweep_flows(struct sweep *sweep)
{
	state.now = sweep->now;
	state.daemon = bpf_get_current_pid_tgid() >> 32;
	sweeping.at = 0;
	sweeping.looked = 0;
	sweeping.expired = 0;
	sweeping.until = state.sweep_from + sweep->limit;
	bpf_for_each_map_elem(&flows, sweep_flow, NULL, 0);
	sweep->looked = sweeping.looked;
	sweep->expired = sweeping.expired;
	sweep->done = sweeping.at <= sweeping.until;
	/*
	 * What was deleted no longer stands before the place to go on. Where a twin
	 * stood is not known: taken for before, a few entries are looked at twice.
	 */
	state.sweep_from =
		sweep->done || sweeping.expired > sweeping.until ? 0 : sweeping.until - sweeping.expired;
	return 0;
}

#endif
