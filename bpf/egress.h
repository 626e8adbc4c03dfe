/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Egress: the source of a reply, backend -> frontend, after the host's netfilter. */
#ifndef SLUICE_EGRESS_H
#define SLUICE_EGRESS_H

#include "ingress.h"

/*
 * The node's own packet with a source port among the node ports: note how its
 * answer will look, so that ingress does not take it for a request.
 */
static __noinline int note_outbound(struct packet *packet)
{
	struct outbound *known, sent = { .last_seen = sweep_clock() };
	struct flow_key key = packet->key;

	reverse(&key.tuple, &packet->tuple);
	key.direction = FLOW_DIRECTION_INGRESS;
	known = bpf_map_lookup_elem(&outbounds, &key);
	if (known && SAME(&known->key, &key)) {
		known->last_seen = sent.last_seen;
		return VERDICT_NEXT;
	}
	if (!is_node_address(&packet->tuple.source))
		return VERDICT_NEXT;
	sent.key = key;
	bpf_map_update_elem(&outbounds, &key, &sent, BPF_ANY);
	return VERDICT_NEXT;
}

/* `link`: bytes of the link-layer header, none or Ethernet's. */
static __always_inline int translate_reply(struct __sk_buff *skb, __u32 link)
{
	struct packet packet;
	struct headers headers;
	struct step step;
	enum parsed parsed = parse(skb, &packet, &headers, FLOW_DIRECTION_EGRESS, link);
	struct flow *flow;
	int verdict;

	if (parsed == PARSED_OTHER)
		return translate_error(skb, FLOW_DIRECTION_EGRESS, link);
	if (parsed == PARSED_FRAGMENT)
		return VERDICT_NEXT;
	if (is_node_port(packet.tuple.source_port) && is_opening(&packet) &&
	    may_be_frontend(&packet.tuple.source))
		note_outbound(&packet);
	if (!may_be_backend(&packet.tuple.source))
		return VERDICT_NEXT;
	flow = bpf_map_lookup_elem(&flows, &packet.key);
	if (flow && copy_step(&step, flow, &packet.key)) {
		if (is_elsewhere(flow, packet.ifindex))
			return VERDICT_NEXT;
		touch(flow, &packet);
	} else {
		__builtin_memset(&step, 0, sizeof(step));
		verdict = through_unconfirmed(&packet, &step);
		if (verdict == VERDICT_REJECT || verdict == VERDICT_DROP)
			report_packet(&packet.key, packet.ifindex, step.flags);
		if (verdict == VERDICT_REJECT)
			return reject(skb, &packet, &headers);
		if (verdict != VERDICT_STEP)
			return verdict;
	}
	if (rewrite(skb, &packet, &headers, &step.to))
		return VERDICT_NEXT;
	count_drop(DROP_REASON_REWRITE_FAILED);
	report_packet(&packet.key, packet.ifindex, DROP_REASON_REWRITE_FAILED);
	return VERDICT_DROP;
}

#endif
