/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Flows: how one is found, made, confirmed and ended.
 *
 * A flow has two sides, each an entry of its own. The request's is keyed by the
 * client's tuple at ingress, the reply's by the backend's at egress (a hairpin's
 * at ingress too). A new flow is two entries of `embryonic`, an LRU hash that
 * any flood of SYNs may turn over; when the client has proved that it receives
 * what we send, both move to `flows`, which forgets nothing by itself.
 *
 * - A backend answers every spoofed SYN, so its answer proves nothing. The
 *   client's ACK of exactly the SYN-ACK's sequence number does; SCTP is told in
 *   the same terms (sctp.h). UDP has no such proof: a datagram of the client a second after its first, with an answer
 *   seen, or three seconds after without.
 * - The reply's key is inserted first, and never over a living one: two flows
 *   of one client through two frontends may want the same backend, and only
 *   another backend or another source port tells the answers apart.
 */
#ifndef SLUICE_FLOW_H
#define SLUICE_FLOW_H

#include "packet.h"
#include "service.h"

#define BACKEND_TRIES 4
#define SOURCE_PORT_TRIES 16
#define EMBRYONIC_STALE_MS 30000
#define UDP_CONFIRM_MS 1000
#define UDP_CONFIRM_ONE_WAY_MS 3000
#define FULL_MS 1000
#define CLOSED_SILENT_SECONDS 1

static __always_inline void reverse(struct tuple *other, const struct tuple *tuple)
{
	other->source = tuple->destination;
	other->destination = tuple->source;
	other->source_port = tuple->destination_port;
	other->destination_port = tuple->source_port;
}

/* `one` may change under us. */
static __always_inline bool is_reverse(const struct tuple *one, const struct tuple *other)
{
	return SAME(&one->source, &other->destination) && SAME(&one->destination, &other->source) &&
	       one->source_port == other->destination_port && one->destination_port == other->source_port;
}

/* The key of a flow's other side. */
static __always_inline void twin_key(struct flow_key *key, const struct flow *flow)
{
	reverse(&key->tuple, &flow->to);
	key->protocol = flow->key.protocol;
	key->direction = flow->flags & FLOW_FLAG_HAIRPIN ? FLOW_DIRECTION_INGRESS :
			 flow->flags & FLOW_FLAG_REQUEST ? FLOW_DIRECTION_EGRESS :
							   FLOW_DIRECTION_INGRESS;
	key->zero = 0;
}

/* Elements are recycled under a reader: whatever was read counts only if this holds after. */
static __always_inline bool is_flow(const struct flow *flow, const struct flow_key *key)
{
	barrier();
	return SAME(&flow->key, key);
}

static __always_inline struct flow *find_flow(void *map, const struct flow_key *key)
{
	struct flow *flow = bpf_map_lookup_elem(map, key);

	return flow && is_flow(flow, key) ? flow : NULL;
}

/*
 * The other side of the flow that `own` is the key of, if it is there. `embryonic` may have lost one side alone, and
 * what has its key may then be of another flow.
 */
static __always_inline struct flow *find_twin(void *map, const struct flow_key *twin, const struct flow_key *own)
{
	struct flow *flow = find_flow(map, twin);

	return flow && is_reverse(&flow->to, &own->tuple) ? flow : NULL;
}

/*
 * A direct flow's packets look like a service flow's on their way between bridge
 * and port: only the client's own device tells them apart.
 */
static __always_inline bool is_elsewhere(const struct flow *flow, __u32 ifindex)
{
	return flow->flags & FLOW_FLAG_DIRECT && flow->ifindex != ifindex;
}

/* An entry of `embryonic` whose flow is confirmed elsewhere, or that nobody answered for long. */
static __always_inline bool is_stale(const struct flow *unconfirmed)
{
	return unconfirmed->flags & FLOW_FLAG_PROMOTED || clock_ms() - unconfirmed->created > EMBRYONIC_STALE_MS;
}

/*
 * Does another living flow own this reply key? What is left of the same
 * client's earlier attempt at the same frontend does not count, unless that met
 * a direct connection: it would again.
 */
__noinline int is_reply_taken(struct flow_key *reply, struct tuple *request)
{
	struct flow_key key;
	struct flow *flow;

	if (!reply || !request)
		return 1;
	key = own_key(reply);
	flow = find_flow(&flows, &key);
	if (flow)
		return !is_reverse(&flow->to, request);
	flow = find_flow(&embryonic, &key);
	/* Its flow is over: what answers by this key from now on is not late. */
	if (flow && flow->flags & FLOW_FLAG_PROMOTED)
		bpf_map_delete_elem(&embryonic, &key);
	return flow && !is_stale(flow) && (flow->state == FLOW_STATE_COLLIDED || !is_reverse(&flow->to, request));
}

/*
 * Packets of a confirmed flow are counted in the flow, whose line is at hand, and not atomically: two CPUs with packets
 * of one side of a flow at once may miss one. Now and then the service is told: when the sweep's clock has moved on,
 * before either part of the word can overflow (nothing is longer than 512 KiB), by the sweep, and at the end.
 */
#define TRAFFIC_PACKET (1U << 24)
#define TRAFFIC_BYTES (TRAFFIC_PACKET - 1)
#define TRAFFIC_FULL (1U << 31 | 1U << 23)

/*
 * Tells the service what its flow has seen. Whoever takes the word has it alone. What outlives its backend may outlive
 * its service, whose id is another's then: nobody is told. (Global: the verifier walks it once.)
 */
__noinline int tell_traffic(struct flow *flow)
{
	struct service_stats *stats;
	__u32 traffic, service;

	if (!flow)
		return 0;
	traffic = __sync_lock_test_and_set(&flow->traffic, 0);
	if (!traffic || !backend_serves(flow->backend, flow->generation))
		return 0;
	service = flow->service;
	stats = bpf_map_lookup_elem(&service_stats, &service);
	if (!stats)
		return 0;
	/* The sweep is interrupted by packets. */
	if (flow->flags & FLOW_FLAG_REQUEST) {
		__sync_fetch_and_add(&stats->request_packets, traffic / TRAFFIC_PACKET);
		__sync_fetch_and_add(&stats->request_bytes, traffic & TRAFFIC_BYTES);
	} else {
		__sync_fetch_and_add(&stats->reply_packets, traffic / TRAFFIC_PACKET);
		__sync_fetch_and_add(&stats->reply_bytes, traffic & TRAFFIC_BYTES);
	}
	return 0;
}

/*
 * Ends both sides of a flow, confirmed or not, by its request's. The reply's side of an unconfirmed one stays: of a
 * collided flow as a note that the key is taken, of others so that late answers are known for what they are.
 */
__noinline int forget_flow(struct flow *flow, struct flow_key *key)
{
	struct scratch *scratch = get_scratch();
	struct flow_key *own, *twin;
	struct flow *reply;
	bool collided;

	if (!flow || !key || !scratch)
		return 0;
	/* As own_key(), where there is room. */
	own = &scratch->request.key;
	*own = *key;
	twin = &scratch->reply.key;
	twin_key(twin, flow);
	collided = flow->state == FLOW_STATE_COLLIDED;
	if (!is_flow(flow, own))
		return 0;
	tell_traffic(flow);
	bpf_map_delete_elem(&flows, own);
	bpf_map_delete_elem(&embryonic, own);
	reply = find_twin(&flows, twin, own);
	if (reply) {
		tell_traffic(reply);
		bpf_map_delete_elem(&flows, twin);
	}
	reply = collided ? NULL : find_twin(&embryonic, twin, own);
	if (reply)
		reply->flags |= FLOW_FLAG_PROMOTED;
	return 1;
}

/* Has TCP said its last word on this flow, but for what is still on its way? */
static __always_inline bool is_closed(const struct flow *flow, const struct flow *twin)
{
	return flow->reset || twin->reset ||
	       (flow->state == FLOW_STATE_CLOSING && twin->state == FLOW_STATE_CLOSING);
}

static __always_inline bool is_silent(const struct flow *flow, __u32 seconds)
{
	/* last_seen may be newer than a sweep that was cut short. */
	return (__s32)(sweep_clock() - flow->last_seen) > (__s32)seconds;
}

/*
 * Frees a reply key whose flow is closed and silent, ahead of the sweep. Only
 * where the alternative is worse: the backend may remember the connection still.
 */
static __always_inline bool take_over(const struct flow_key *reply)
{
	struct flow *flow = find_flow(&flows, reply), *twin;
	struct flow_key key;

	if (!flow)
		return false;
	twin_key(&key, flow);
	twin = find_flow(&flows, &key);
	if (!twin || !is_closed(flow, twin) || !is_silent(flow, CLOSED_SILENT_SECONDS) ||
	    !is_silent(twin, CLOSED_SILENT_SECONDS) || !is_flow(flow, reply))
		return false;
	tell_traffic(flow);
	tell_traffic(twin);
	bpf_map_delete_elem(&flows, reply);
	bpf_map_delete_elem(&flows, &key);
	bpf_map_delete_elem(&embryonic, reply);
	bpf_map_delete_elem(&embryonic, &key);
	return true;
}

/* Derives the reply's side of a new flow from the request's. */
static __always_inline void mirror_flow(struct flow *reply, const struct flow *request)
{
	*reply = *request;
	twin_key(&reply->key, request);
	reverse(&reply->to, &request->key.tuple);
	reply->flags = request->flags & ~FLOW_FLAG_REQUEST;
}

/*
 * Puts a new flow into `embryonic`, reply first. False when another flow took
 * the reply's key in the meantime.
 */
static __always_inline bool insert_embryonic(struct scratch *scratch)
{
	struct flow *request = &scratch->request, *reply = &scratch->reply;

	mirror_flow(reply, request);
	if (bpf_map_update_elem(&embryonic, &reply->key, reply, BPF_NOEXIST) &&
	    (is_reply_taken(&reply->key, &request->key.tuple) ||
	     bpf_map_update_elem(&embryonic, &reply->key, reply, BPF_ANY)))
		return false;
	return !bpf_map_update_elem(&embryonic, &request->key, request, BPF_ANY);
}

/*
 * Finds another source port with which the reply's key is free; else any, the
 * client's own first, whose flow is closed. The tuple is changed in place. 1: found.
 * (Global, as some others are: the verifier walks it once.)
 */
__noinline int find_source_port(struct flow *request)
{
	__u32 count = source_port_last - source_port_first + 1;
	struct scratch *scratch = get_scratch();
	struct flow_key *reply;

	if (!request || !scratch)
		return 0;
	reply = &scratch->reply.key;
	for (int i = 0; i < SOURCE_PORT_TRIES; i++) {
		request->to.source_port = bpf_htons(source_port_first + bpf_get_prandom_u32() % count);
		twin_key(reply, request);
		if (!is_reply_taken(reply, &request->key.tuple))
			return 1;
	}
	request->to.source_port = request->key.tuple.source_port;
	for (int i = 0; i < SOURCE_PORT_TRIES; i++) {
		twin_key(reply, request);
		if (take_over(reply))
			return 1;
		request->to.source_port = bpf_htons(source_port_first + bpf_get_prandom_u32() % count);
	}
	return 0;
}

/* Does neither side of this flow close? */
__noinline int is_open(struct flow *flow)
{
	struct flow_key key;
	struct flow *twin;

	if (!flow || flow->state == FLOW_STATE_CLOSING)
		return 0;
	twin_key(&key, flow);
	twin = find_flow(&flows, &key);
	return twin && twin->state != FLOW_STATE_CLOSING;
}

/* A confirmed flow ends, or begins to: its backend has one connection less, if it has not been told before. */
static __always_inline void end_load(struct flow *flow)
{
	if (is_open(flow))
		count_load(flow->backend, flow->generation, -1);
}

static __always_inline void promote_entry(struct flow *flow)
{
	flow->state = FLOW_STATE_ESTABLISHED;
	flow->last_seen = sweep_clock();
	flow->flags = (flow->flags | FLOW_FLAG_CONFIRMED) & ~FLOW_FLAG_PROMOTED;
}

/* Odd, so never 0 ("never full"), and never ahead of the clock, which would make it long ago. */
static __always_inline void note_full(void)
{
	state.full_at = (clock_ms() - 1) | 1;
	count_drop(DROP_REASON_FLOWS_FULL);
}

/*
 * Moves a confirmed flow into `flows`. The entries in `embryonic` stay, marked:
 * a packet that missed in `flows` just before must not take the flow for a new
 * one. 0 when the table is full (new connections are then refused for a
 * while, before they exist) or the reply's key is another flow's by now; the
 * flow lives on in `embryonic`, and the next packet tries again. `closing`: the
 * proof carries the client's FIN.
 */
__noinline int promote(struct flow *unconfirmed, int closing)
{
	struct scratch *scratch = get_scratch();
	struct flow *taken, *twin;
	long error;

	if (!scratch || !unconfirmed)
		return 0;
	scratch->request = *unconfirmed;
	promote_entry(&scratch->request);
	mirror_flow(&scratch->reply, &scratch->request);
	if (unconfirmed->state != FLOW_STATE_REPLIED)
		scratch->reply.state = FLOW_STATE_NEW;
	if (closing)
		scratch->request.state = FLOW_STATE_CLOSING;
	error = bpf_map_update_elem(&flows, &scratch->reply.key, &scratch->reply, BPF_NOEXIST);
	if (error) {
		taken = find_flow(&flows, &scratch->reply.key);
		if (!taken) {
			note_full();
			return 0;
		}
		if (!SAME(&taken->to, &scratch->reply.to)) {
			count_drop(DROP_REASON_COLLISION);
			return 0;
		}
	}
	if (bpf_map_update_elem(&flows, &scratch->request.key, &scratch->request, BPF_ANY)) {
		bpf_map_delete_elem(&flows, &scratch->reply.key);
		note_full();
		return 0;
	}
	if (!error && !closing)
		count_load(unconfirmed->backend, unconfirmed->generation, 1);
	unconfirmed->flags |= FLOW_FLAG_PROMOTED;
	twin = find_flow(&embryonic, &scratch->reply.key);
	if (twin)
		twin->flags |= FLOW_FLAG_PROMOTED;
	return 1;
}

/* Are new flows refused because the last ones found no room? */
static __always_inline bool flows_full(void)
{
	return state.full_at && clock_ms() - state.full_at < FULL_MS;
}

#endif
