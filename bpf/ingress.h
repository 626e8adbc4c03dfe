/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ingress: the destination of a request, frontend -> backend, before the host's
 * netfilter.
 *
 * Functions that decide take plain data, fill a struct step, and return a
 * verdict; one place writes into the packet. The large ones are global: the
 * verifier walks them once, not once a caller.
 */
#ifndef SLUICE_INGRESS_H
#define SLUICE_INGRESS_H

#include "icmp.h"
#include "include/others.h"
#include "include/reject.h"
#include "open.h"

/* Notes what a packet says of its own side. */
static __always_inline void touch(struct flow *flow, const struct packet *packet)
{
	__u32 now = sweep_clock(), traffic = flow->traffic;

	if (flow->last_seen != now || traffic & TRAFFIC_FULL) {
		flow->last_seen = now;
		tell_traffic(flow);
		traffic = 0;
	}
	flow->traffic = traffic + TRAFFIC_PACKET + packet->length;
	if (flow->state == FLOW_STATE_NEW)
		flow->state = FLOW_STATE_ESTABLISHED; /* a reply's side: the first answer */
	if (packet->tcp_flags & (TCP_FIN | TCP_RST)) {
		end_load(flow);
		flow->state = FLOW_STATE_CLOSING;
		if (packet->tcp_flags & TCP_RST)
			flow->reset = 1;
	}
}

/* Is the flow being handed to netfilter at this moment? Its packets must be seen by nobody until it has it. */
static __always_inline bool is_held(const struct flow *flow)
{
	return flow->state == FLOW_STATE_HELD && (__s32)(state.held_until - clock_ms()) > 0;
}

/* Lets a packet wait: it comes in again on the same device, behind what has come in meanwhile. */
static __always_inline int hold(struct __sk_buff *skb)
{
	return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
}

static __always_inline bool serves(const struct flow *flow)
{
	return flow->flags & FLOW_FLAG_DIRECT || backend_serves(flow->backend, flow->generation);
}

/* Does a request's UDP flow go on to the backend that is gone, its service having nobody else? */
__noinline int has_nobody_else(struct flow *flow)
{
	struct scratch *scratch = get_scratch();
	struct frontend *frontend;
	const struct tuple *asked;

	if (!flow || !scratch)
		return 0;
	frontend = &scratch->frontend;
	asked = &flow->key.tuple;
	return find_frontend(frontend, &asked->destination, asked->destination_port, IPPROTO_UDP, false) &&
	       frontend->service == flow->service && nobody_serves(frontend->service);
}

/* Does a datagram stay with the backend of its flow? */
static __always_inline bool stays(struct flow *flow)
{
	return serves(flow) || has_nobody_else(flow);
}

/* May a SYN, or a datagram, that meets its own confirmed flow go the same way? */
static __always_inline bool may_go_on(struct flow *flow, const struct packet *packet)
{
	return packet->protocol == IPPROTO_UDP ? stays(flow) : serves(flow) && is_open(flow);
}

/* A datagram that proves its client alive? Time is all there is to go by. */
static __always_inline bool is_udp_confirmed(const struct flow *flow)
{
	__u32 age = clock_ms() - flow->created;

	return age >= (flow->state == FLOW_STATE_REPLIED ? UDP_CONFIRM_MS : UDP_CONFIRM_ONE_WAY_MS);
}

/* A request's packet meets its unconfirmed flow. False when a new flow must take its place. */
static __always_inline bool advance_request(struct flow *flow, const struct packet *packet)
{
	if (packet->protocol == IPPROTO_UDP) {
		if (!stays(flow))
			return false;
		if (is_udp_confirmed(flow))
			promote(flow, 0);
		return true;
	}
	if (is_opening(packet)) {
		/* The first retransmit may be loss on the way; the second is a backend that does not answer. */
		if (flow->state == FLOW_STATE_NEW)
			return flow->syns++ == 0 && serves(flow) && !is_stale(flow);
		return flow->state == FLOW_STATE_REPLIED && serves(flow);
	}
	if (packet->tcp_flags & TCP_RST) {
		flow->state = FLOW_STATE_CLOSING;
		return true;
	}
	if (flow->state == FLOW_STATE_REPLIED && packet->tcp_flags & TCP_ACK &&
	    (flow->flags & FLOW_FLAG_CONFIRMED || packet->acknowledged == flow->sequence + 1)) {
		flow->flags |= FLOW_FLAG_CONFIRMED;
		promote(flow, packet->tcp_flags & TCP_FIN);
	}
	return true;
}

/* An answer to a flow that is over. The client would see an address that it never asked: the backend is told instead. */
static __always_inline int end_late(const struct packet *packet, struct step *step)
{
	return end(step, DROP_REASON_NO_FLOW, packet->protocol == IPPROTO_UDP ? VERDICT_DROP : VERDICT_REJECT);
}

static __always_inline bool is_syn_ack(const struct packet *packet)
{
	return packet->protocol != IPPROTO_UDP && (packet->tcp_flags & (TCP_SYN | TCP_ACK)) == (TCP_SYN | TCP_ACK);
}

/* What an answer tells of a flow that is not confirmed yet. Returns enum drop_reason: none where it is to reach the client. */
static __always_inline int advance_reply(struct flow *reply, const struct packet *packet)
{
	struct flow_key key;
	struct flow *request;

	twin_key(&key, reply);
	request = find_flow(&embryonic, &key);
	/*
	 * Pushed out by others' flows, and perhaps made anew to another backend: the ACK of this SYN-ACK would be nobody's,
	 * or that backend's. The client sends its SYN again.
	 */
	if (request ? !is_reverse(&request->to, &reply->key.tuple) : is_syn_ack(packet))
		return DROP_REASON_NO_FLOW;
	if (!request)
		return DROP_REASON_NONE;
	if (packet->protocol == IPPROTO_UDP) {
		request->state = reply->state = FLOW_STATE_REPLIED;
		return DROP_REASON_NONE;
	}
	if (packet->tcp_flags & TCP_RST) {
		/* Refused: the next SYN is a new attempt. */
		request->state = reply->state = FLOW_STATE_CLOSING;
		return DROP_REASON_NONE;
	}
	if (is_syn_ack(packet)) {
		request->sequence = packet->sequence;
		request->state = reply->state = FLOW_STATE_REPLIED;
		return DROP_REASON_NONE;
	}
	/*
	 * An ACK for a SYN: the backend has a connection of this very tuple that
	 * we never saw, a direct one. Told of it the client would reset that one.
	 * Kept quiet it sends its SYN again, which gets another source port.
	 */
	if (request->state == FLOW_STATE_NEW) {
		request->state = reply->state = FLOW_STATE_COLLIDED;
		return DROP_REASON_CHALLENGE_ACK;
	}
	return DROP_REASON_NONE;
}

/*
 * A packet whose flow is not in `flows`, or was not a moment ago. VERDICT_NEXT
 * when no living flow takes it.
 */
__noinline int through_unconfirmed(struct packet *packet, struct step *step)
{
	struct flow_key key;
	struct flow *flow;
	bool is_reply;
	__u32 service;
	int reason;

	if (!packet || !step)
		return VERDICT_NEXT;
	key = own_key(&packet->key);
	flow = find_flow(&embryonic, &key);
	if (!flow || is_elsewhere(flow, packet->ifindex))
		return VERDICT_NEXT;
	if (flow->flags & FLOW_FLAG_PROMOTED) {
		/* Confirmed between our two look-ups, or over. */
		is_reply = !(flow->flags & FLOW_FLAG_REQUEST);
		flow = find_flow(&flows, &key);
		if (!flow && is_reply)
			return end_late(packet, step);
		if (!flow)
			return VERDICT_NEXT;
		if (is_held(flow))
			return VERDICT_HOLD;
		if (flow->flags & FLOW_FLAG_REQUEST && is_opening(packet) && !may_go_on(flow, packet))
			return VERDICT_NEXT;
	} else if (!(flow->flags & FLOW_FLAG_REQUEST)) {
		if (flow->state == FLOW_STATE_COLLIDED)
			return VERDICT_NEXT; /* the direct connection's */
		reason = advance_reply(flow, packet);
		if (reason == DROP_REASON_NO_FLOW)
			return end_late(packet, step);
		if (reason)
			return end(step, reason, VERDICT_DROP);
	} else if (is_held(flow)) {
		return VERDICT_HOLD;
	} else if (!advance_request(flow, packet)) {
		forget_flow(flow, &key);
		return VERDICT_NEXT;
	}
	service = flow->service;
	if (!copy_step(step, flow, &key))
		return VERDICT_NEXT;
	count_packet(service, step->flags & FLOW_FLAG_REQUEST, packet->length);
	return VERDICT_STEP;
}

/*
 * A connection straight to a backend. Where a service flow of the same client
 * already looks the same to that backend, it gets a source port of its own.
 */
__noinline int through_direct(struct __sk_buff *skb, struct packet *packet, struct step *step)
{
	struct scratch *scratch = get_scratch();
	struct flow_key *reply;
	struct device *device;
	int verdict;

	if (!packet || !step || !scratch)
		return VERDICT_NEXT;
	if (state.direct_flows) {
		verdict = through_unconfirmed(packet, step);
		if (verdict != VERDICT_NEXT)
			return verdict;
	}
	if (!is_opening(packet) || state.draining)
		return VERDICT_NEXT;
	reply = &scratch->reply.key;
	*reply = packet->key;
	reverse(&reply->tuple, &packet->tuple);
	reply->direction = FLOW_DIRECTION_EGRESS;
	if (!is_reply_taken(reply, &packet->tuple))
		return VERDICT_NEXT;
	device = first_device(skb);
	if (!device || device->flags & DEVICE_FLAG_BRIDGE)
		return VERDICT_NEXT; /* on a bridge it is the translated packet itself */
	if (take_over(reply))
		return VERDICT_NEXT;
	begin_flow(&scratch->request, skb, packet);
	scratch->request.to = packet->tuple;
	scratch->request.flags = FLOW_FLAG_REQUEST | FLOW_FLAG_DIRECT;
	if (!find_source_port(&scratch->request) || !insert_embryonic(scratch))
		return end(step, DROP_REASON_COLLISION, VERDICT_REJECT);
	state.direct_flows = 1;
	step->to = scratch->request.to;
	step->flags = scratch->request.flags;
	return VERDICT_STEP;
}

static __always_inline bool is_node_port(__be16 port)
{
	__u16 number = bpf_ntohs(port);

	return number >= node_port_first && number <= node_port_last;
}

/* Is this an answer to the node's own packet, which only looks like a request for a node port? */
static __always_inline bool is_answer(const struct packet *packet)
{
	struct flow_key key = own_key(&packet->key);
	struct outbound *sent = bpf_map_lookup_elem(&outbounds, &key);

	return sent && sweep_clock() - sent->last_seen <= udp_replied_seconds && SAME(&sent->key, &key);
}

/*
 * A backend answers the node: a client that netfilter masquerades, perhaps. A segment that conntrack calls invalid is
 * not brought back to the client, and the node's stack would reset the connection of another. Our nft table drops it
 * by this mark.
 */
static __always_inline int pass_to_node(struct __sk_buff *skb, const struct packet *packet)
{
	if (may_be_backend(&packet->tuple.source))
		skb->mark |= mark_accept;
	return VERDICT_NEXT;
}

/* Who is in no source range of the frontend in the scratch area gets no answer at all. */
static __always_inline bool is_kept_out(struct scratch *scratch, const addr_t *client)
{
	scratch->asked.client = *client;
	return fill_request(&scratch->asked, &scratch->frontend, CLIENT_CLASS_INTERNAL) &&
	       is_guarded(&scratch->asked, &scratch->frontend) && !is_in_source_ranges(&scratch->asked);
}

/*
 * No confirmed flow: an unconfirmed one, a new one (VERDICT_OPEN, the frontend
 * in scratch->frontend), or none of our business.
 */
__noinline int through_frontend(struct __sk_buff *skb, struct packet *packet, struct step *step)
{
	struct scratch *scratch = get_scratch();
	struct frontend *frontend;
	bool found, silent;
	__u32 reason;
	int verdict;

	if (!packet || !step || !scratch || !accepting_device(skb))
		return VERDICT_NEXT;
	/* Before any frontend is looked for: a hairpin's answer goes to whatever port the client had. */
	verdict = through_unconfirmed(packet, step);
	if (verdict != VERDICT_NEXT)
		return verdict;
	/* Most of the node's own traffic comes here: what nobody knows its stack refuses. */
	if (!is_opening(packet) && !is_node_port(packet->tuple.destination_port) &&
	    is_node_address(&packet->tuple.destination))
		return pass_to_node(skb, packet);
	if (state.draining)
		return VERDICT_NEXT;
	frontend = &scratch->frontend;
	found = find_frontend(frontend, &packet->tuple.destination, packet->tuple.destination_port, packet->protocol,
			      false);
	if (found && frontend->kind == FRONTEND_KIND_NODE_PORT && is_answer(packet))
		return VERDICT_NEXT;
	reason = found ? DROP_REASON_NONE : reason_without_frontend(&packet->tuple.destination);
	if (!is_opening(packet)) {
		if (!found && !reason)
			return VERDICT_NEXT;
		verdict = through_others(skb, packet);
		step->flags = DROP_REASON_NO_FLOW;
		silent = found ? is_kept_out(scratch, &packet->tuple.source) : reason == DROP_REASON_UNALLOCATED;
		return verdict == VERDICT_REJECT && silent ? VERDICT_DROP : verdict;
	}
	if (found)
		return is_others_stream(skb, packet) ? VERDICT_NEXT : VERDICT_OPEN;
	if (reason == DROP_REASON_NONE)
		return may_be_backend(&packet->tuple.destination) ? VERDICT_DIRECT : VERDICT_NEXT;
	return end(step, reason, reason == DROP_REASON_UNALLOCATED ? VERDICT_DROP : VERDICT_REJECT);
}

/* Is the packet on the device that its flow began on, or on another one that is ours? */
static __always_inline bool follow_device(struct __sk_buff *skb, struct flow *flow)
{
	if (is_elsewhere(flow, skb->ifindex))
		return false;
	if (flow->ifindex == skb->ifindex && skb->pkt_type == PACKET_HOST)
		return true;
	/* A direct flow may stay on its bridge, addressed from port to port. */
	if (!(flow->flags & FLOW_FLAG_DIRECT ? first_device(skb) : accepting_device(skb)))
		return false;
	if (flow->ifindex != skb->ifindex)
		flow->ifindex = skb->ifindex;
	return true;
}

/* The established path first: one look-up. */
static __always_inline int decide_request(struct __sk_buff *skb, struct packet *packet, struct step *step)
{
	bool to_frontend = may_be_frontend(&packet->tuple.destination) ||
			   is_in_service_cidr(&packet->tuple.destination);
	int verdict = VERDICT_DIRECT;
	struct flow *flow;

	if (!to_frontend && !state.direct_flows) {
		__builtin_memset(step, 0, sizeof(*step)); /* verifiers before 6.3 want it written before a call */
		return through_direct(skb, packet, step);
	}
	flow = bpf_map_lookup_elem(&flows, &packet->key);
	if (flow && copy_step(step, flow, &packet->key)) {
		if (!follow_device(skb, flow))
			return VERDICT_NEXT;
		if (is_held(flow))
			return VERDICT_HOLD;
		if (!is_opening(packet) || !(step->flags & FLOW_FLAG_REQUEST) || may_go_on(flow, packet)) {
			touch(flow, packet);
			return VERDICT_STEP;
		}
		end_load(flow);
		forget_flow(flow, &packet->key);
	}
	__builtin_memset(step, 0, sizeof(*step));
	if (to_frontend)
		verdict = through_frontend(skb, packet, step);
	if (verdict == VERDICT_OPEN)
		return open_flow(skb, packet, step);
	return verdict == VERDICT_DIRECT ? through_direct(skb, packet, step) : verdict;
}

/* A later fragment whose first was not seen. The node's own traffic may have taken another way in. */
static __always_inline int unknown_fragment(const struct packet *packet)
{
	if (!may_be_frontend(&packet->tuple.destination) || is_node_address(&packet->tuple.destination) ||
	    state.draining)
		return VERDICT_NEXT;
	count_drop(DROP_REASON_UNKNOWN_FRAGMENT);
	report_packet(&packet->key, packet->ifindex, DROP_REASON_UNKNOWN_FRAGMENT);
	return VERDICT_DROP;
}

/* `link`: bytes of the link-layer header, none or Ethernet's. */
static __always_inline int translate_request(struct __sk_buff *skb, __u32 link)
{
	struct packet packet;
	struct headers headers;
	struct step step;
	enum parsed parsed = parse(skb, &packet, &headers, FLOW_DIRECTION_INGRESS, link);
	int verdict;

	if (parsed == PARSED_OTHER)
		return translate_error(skb, FLOW_DIRECTION_INGRESS, link);
	if (parsed == PARSED_FRAGMENT)
		return unknown_fragment(&packet);
	verdict = decide_request(skb, &packet, &step);
	if (verdict == VERDICT_STEP)
		return take_step(skb, &packet, &headers, &step);
	if (verdict == VERDICT_NEXT)
		return VERDICT_NEXT;
	if (verdict == VERDICT_HOLD)
		return hold(skb);
	report_packet(&packet.key, packet.ifindex, step.flags);
	return verdict == VERDICT_REJECT ? reject(skb, &packet, &headers) : VERDICT_DROP;
}

#endif
