/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From what a flow says of a packet to the packet on its way. */
#ifndef SLUICE_STEP_H
#define SLUICE_STEP_H

#include "include/device.h"
#include "include/flow.h"
#include "include/report.h"

/* Copies a step out of the flow; false when the element was recycled under us. */
static __always_inline bool copy_step(struct step *step, const struct flow *flow, const struct flow_key *key)
{
	step->to = *(const volatile struct tuple *)&flow->to;
	step->flags = *(const volatile __u8 *)&flow->flags;
	return is_flow(flow, key);
}

/* Sends a packet that stays on the client's device or bridge on its way there. */
__noinline int deliver(struct __sk_buff *skb, struct tuple *from, struct step *step, __u32 link)
{
	if (!from || !step)
		return VERDICT_DROP;
	if (step->flags & FLOW_FLAG_HAIRPIN)
		return send_back(skb, FLOW_DIRECTION_INGRESS, link);
	address_to_neighbour(skb, &from->source, &step->to.destination);
	return VERDICT_NEXT;
}

/* Sends a packet that ingress has translated on its way. */
static __always_inline int send_on(struct __sk_buff *skb, struct tuple *from, struct step *step, __u32 link)
{
	if (step->flags & (FLOW_FLAG_EXTERNAL | FLOW_FLAG_MASQUERADE))
		skb->mark |= step->flags & FLOW_FLAG_MASQUERADE ? mark_accept | mark_masquerade : mark_accept;
	if (!(step->flags & (FLOW_FLAG_HAIRPIN | FLOW_FLAG_SAME_BRIDGE)))
		return VERDICT_NEXT;
	return deliver(skb, from, step, link);
}

/* Ends a packet by this verdict: drop or reject. */
static __always_inline int end(struct step *step, __u32 reason, int verdict)
{
	count_drop(reason);
	step->flags = reason;
	return verdict;
}

/* Makes the step real. */
static __always_inline int take_step(struct __sk_buff *skb, struct packet *packet, const struct headers *headers,
				     struct step *step)
{
	if (!rewrite(skb, packet, headers, &step->to)) {
		count_drop(DROP_REASON_REWRITE_FAILED);
		report_packet(&packet->key, packet->ifindex, DROP_REASON_REWRITE_FAILED);
		return VERDICT_DROP;
	}
	return send_on(skb, &packet->tuple, step, headers->link);
}

#endif
