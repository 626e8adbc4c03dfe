/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The first packet of a flow to a frontend: who asks for what, which backend it
 * gets, and both sides of the flow that comes of it.
 */
#ifndef SLUICE_OPEN_H
#define SLUICE_OPEN_H

#include "include/device.h"
#include "include/flow.h"

/*
 * Does the backend see the node's address? Where it is a matter of need: if it is on another node, or its answers
 * take another way. The answers to a pod behind a device of its own always pass there.
 */
static __always_inline bool is_masqueraded(struct __sk_buff *skb, const struct request *request,
					   const struct device *device, const struct backend *backend)
{
	if (request->masquerade != MASQUERADE_IF_NEEDED)
		return request->masquerade == MASQUERADE_ALWAYS;
	if (device->class != DEVICE_CLASS_EXTERNAL)
		return false;
	return !(backend->flags & BACKEND_FLAG_ON_NODE) ||
	       !replies_return(skb, device, &backend->address, &request->client);
}

/* The step to this backend for the request's client. */
static __always_inline void aim_flow(struct __sk_buff *skb, struct flow *flow, const struct request *request,
				     const struct device *device, const struct backend *backend)
{
	flow->flags = FLOW_FLAG_REQUEST;
	flow->to = flow->key.tuple;
	flow->to.destination = backend->address;
	flow->to.destination_port = backend->port;
	if (device->class == DEVICE_CLASS_EXTERNAL) {
		flow->flags |= FLOW_FLAG_EXTERNAL;
	} else if (SAME(&backend->address, &request->client)) {
		flow->flags |= FLOW_FLAG_HAIRPIN;
		flow->to.source = request->hairpin_source;
		return;
	}
	if (is_masqueraded(skb, request, device, backend)) {
		flow->flags |= FLOW_FLAG_MASQUERADE;
	} else if (!(flow->flags & FLOW_FLAG_EXTERNAL) && on_same_bridge(skb, device, &request->client, &backend->address)) {
		flow->flags |= FLOW_FLAG_SAME_BRIDGE;
	}
}

/*
 * Chooses a backend and a free reply key for the flow that is being made, for
 * what scratch->asked says. Returns enum drop_reason: none is success.
 */
__noinline int choose_backend(struct __sk_buff *skb, struct device *device)
{
	struct scratch *scratch = get_scratch();
	struct flow_key *reply;
	__u32 id = 0, count = 0;

	if (!device || !scratch)
		return DROP_REASON_COLLISION;
	reply = &scratch->reply.key;
	if (scratch->asked.affinity_seconds)
		id = affine_backend(&scratch->asked, &scratch->backend);
	for (int i = 0; i < BACKEND_TRIES; i++) {
		if (!id)
			id = next_backend(&scratch->asked, &scratch->backend, &count);
		if (!id)
			return reason_when_empty(&scratch->asked);
		scratch->request.backend = id;
		scratch->request.generation = scratch->backend.generation;
		aim_flow(skb, &scratch->request, &scratch->asked, device, &scratch->backend);
		twin_key(reply, &scratch->request);
		if (!is_reply_taken(reply, &scratch->request.key.tuple))
			return DROP_REASON_NONE;
		/* A client that is to stay gets another source port, not another backend. */
		if (scratch->asked.affinity_seconds || is_hashed(&scratch->asked) || count < 2)
			return DROP_REASON_COLLISION;
		id = 0;
	}
	return DROP_REASON_COLLISION;
}

static __always_inline void begin_flow(struct flow *flow, struct __sk_buff *skb, const struct packet *packet)
{
	__builtin_memset(flow, 0, sizeof(*flow));
	flow->key = packet->key;
	flow->ifindex = skb->ifindex;
	flow->created = clock_ms();
	flow->state = FLOW_STATE_NEW;
}

/* A hairpin's answer comes to an address that is not the node's, whatever the client asked for. */
static __always_inline void set_hairpin_source(struct request *request, const struct frontend *frontend,
					       const addr_t *asked)
{
	__u32 id = frontend->service;
	struct service *service;

	request->hairpin_source = *asked;
	if (frontend->kind != FRONTEND_KIND_NODE_PORT && !(frontend->flags & FRONTEND_FLAG_ON_NODE))
		return;
	service = bpf_map_lookup_elem(&services, &id);
	if (service)
		request->hairpin_source = *(addr_t *)service->cluster_ip;
}

/* Ends a request that gets no backend the way the model wants it ended. */
static __always_inline int refuse(struct step *step, __u32 service, __u32 reason)
{
	count_refused(service, reason);
	step->flags = reason;
	return reason == DROP_REASON_NO_ENDPOINT_DROPPED || reason == DROP_REASON_SOURCE_RANGE ? VERDICT_DROP :
												 VERDICT_REJECT;
}

/* Notes the first packet of a flow to scratch->frontend, and who asks for what. Returns enum drop_reason, or VERDICT_NEXT. */
__noinline int ask(struct __sk_buff *skb, struct packet *packet, struct device *device)
{
	struct scratch *scratch = get_scratch();

	if (!scratch || !packet || !device)
		return VERDICT_NEXT;
	/* Nobody sends from loopback: the host's routing drops it, and knows better whether it is to. */
	if (is_loopback(&packet->tuple.source))
		return VERDICT_NEXT;
	__builtin_memset(&scratch->asked, 0, sizeof(scratch->asked));
	scratch->asked.client = packet->tuple.source;
	if (!fill_request(&scratch->asked, &scratch->frontend, client_class(device, &packet->tuple.source)))
		return VERDICT_NEXT;
	/* Whether there is an endpoint or not: who is kept out must not learn it. */
	if (is_guarded(&scratch->asked, &scratch->frontend) && !is_in_source_ranges(&scratch->asked))
		return DROP_REASON_SOURCE_RANGE;
	if (flows_full())
		return DROP_REASON_FLOWS_FULL;
	if (is_hashed(&scratch->asked))
		scratch->asked.hash = packet_hash(&scratch->asked, &packet->tuple);
	begin_flow(&scratch->request, skb, packet);
	scratch->request.service = scratch->asked.service;
	set_hairpin_source(&scratch->asked, &scratch->frontend, &packet->tuple.destination);
	return DROP_REASON_NONE;
}

/*
 * Makes the flow that choose_backend() left in the scratch area, unless it found a reason not to. `bytes`: of its first
 * packet.
 */
__noinline int make_flow(int reason, struct step *step, __u32 bytes)
{
	struct scratch *scratch = get_scratch();

	if (!scratch || !step)
		return VERDICT_NEXT;
	if (reason == DROP_REASON_COLLISION && find_source_port(&scratch->request))
		reason = DROP_REASON_NONE;
	if (!reason && !insert_embryonic(scratch))
		reason = DROP_REASON_COLLISION;
	if (reason)
		return refuse(step, scratch->asked.service, reason);
	if (scratch->asked.affinity_seconds)
		keep_affinity(&scratch->asked, scratch->request.backend, scratch->request.generation);
	count_connection(scratch->asked.service, bytes);
	step->to = scratch->request.to;
	step->flags = scratch->request.flags;
	return VERDICT_STEP;
}

/* The first packet of a flow to scratch->frontend: balance it. */
static __always_inline int open_flow(struct __sk_buff *skb, struct packet *packet, struct step *step)
{
	struct device *device = accepting_device(skb);
	int reason;

	if (!device)
		return VERDICT_NEXT;
	reason = ask(skb, packet, device);
	if (reason < 0)
		return VERDICT_NEXT;
	if (!reason)
		reason = choose_backend(skb, device);
	return make_flow(reason, step, packet->length);
}

#endif
