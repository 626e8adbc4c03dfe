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

static __always_inline bool is_node_port(__be16 port)
{
	__u16 number = bpf_ntohs(port);

	return number >= node_port_first && number <= node_port_last;
}

/* A host that routed a frame back into its bridge tells the client of a shorter way, by an address it must not know. */
static __always_inline bool is_redirect_of_flow(struct __sk_buff *skb)
{
	struct {
		ip_header_t ip;
		__be16 source_port, destination_port;
	} quoted;
	struct flow_key key = { .direction = FLOW_DIRECTION_EGRESS };
	__u32 at = quoted_by_redirect(skb, ETH_HLEN + sizeof(ip_header_t));

	if (!at || bpf_skb_load_bytes(skb, at, &quoted, sizeof(quoted)) || has_options(&quoted.ip))
		return false;
	key.protocol = protocol_of(&quoted.ip);
	key.tuple.source = destination_of(&quoted.ip);
	key.tuple.destination = source_of(&quoted.ip);
	key.tuple.source_port = quoted.destination_port;
	key.tuple.destination_port = quoted.source_port;
	return find_flow(&flows, &key) || find_flow(&embryonic, &key);
}

static __always_inline int pass_icmp(struct __sk_buff *skb)
{
	if (!is_redirect_of_flow(skb))
		return VERDICT_NEXT;
	count_drop(DROP_REASON_ICMP_REDIRECT);
	return VERDICT_DROP;
}

static __always_inline int translate_reply(struct __sk_buff *skb)
{
	struct packet packet;
	struct headers headers;
	struct step step;
	struct flow *flow;
	int verdict;

	if (parse(skb, &packet, &headers, FLOW_DIRECTION_EGRESS) != PARSED_OK)
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
		verdict = through_unconfirmed(&packet, &step);
		if (verdict != VERDICT_STEP)
			return verdict;
	}
	if (rewrite(skb, &packet, &headers, &step.to))
		return VERDICT_NEXT;
	count_drop(DROP_REASON_REWRITE_FAILED);
	return VERDICT_DROP;
}

#endif
