/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors about packets of a flow: translated in their own header and in the
 * one they quote, so that each end is told of packets as it sent them (RFC 5508,
 * 4.2), and path MTU discovery works through a service.
 *
 * An error goes the way of the packets that answer the quoted one, so the flow
 * is the one that the quoted tuple, turned round, is the key of:
 *
 *     egress    about a request that was translated: quoted client -> backend,
 *               becomes client -> frontend
 *     ingress   about a reply, as the client saw it: quoted frontend -> client,
 *               becomes backend -> client, and the error goes to the backend
 *
 * Netfilter, between the two, sees an error about plain client <-> backend
 * packets, which is RELATED, and undoes in both headers what it masquerades.
 *
 * All of this is rare, so it reads and writes by helpers, at any offset.
 */
#ifndef SLUICE_ICMP_H
#define SLUICE_ICMP_H

#include "include/filter.h"
#include "step.h"

/* Every error quotes at least this much behind the IP header (RFC 792). */
#define QUOTED_PAYLOAD_MIN 8

/* Reads an error that quotes a packet of TCP, UDP or SCTP, whole enough to know its ports. False for anything else. */
static __always_inline bool read_error(struct __sk_buff *skb, struct icmp_error *error, __u32 link)
{
	struct located *outer = &error->outer, *quoted = &error->quoted;
	struct icmp_header icmp;

	error->start = link;
	if (!locate(skb, link, outer) || outer->at.protocol != ICMP_PROTOCOL || outer->at.is_fragment)
		return false;
	if (bpf_skb_load_bytes(skb, outer->at.transport, &icmp, sizeof(icmp)) || !quotes_packet(icmp.type))
		return false;
	error->type = icmp.type;
	error->checksum = icmp.checksum;
	error->quote = find_quote(skb, outer->at.transport, icmp.type);
	if (!error->quote || !locate(skb, error->quote, quoted))
		return false;
	if (quoted->at.is_later || !has_ports(quoted->at.protocol))
		return false;
	return quoted->at.transport + QUOTED_PAYLOAD_MIN <= outer->end && outer->end <= skb->len &&
	       !bpf_skb_load_bytes(skb, quoted->at.transport, error->ports, sizeof(error->ports));
}

/* Fills in the flow that the error is about, and its step. False: none, or it is not of this device. */
static __always_inline bool find_step(struct __sk_buff *skb, struct icmp_error *error, __u8 direction)
{
	struct flow_key *key = &error->key;
	struct flow *flow;

	key->tuple.source = error->quoted.destination;
	key->tuple.destination = error->quoted.source;
	key->tuple.source_port = error->ports[1];
	key->tuple.destination_port = error->ports[0];
	key->protocol = error->quoted.at.protocol;
	key->direction = direction;
	key->zero = 0;
	/* Errors go to who sent the packet they quote. */
	if (!SAME(&error->outer.destination, &key->tuple.destination))
		return false;
	flow = find_flow(&flows, key);
	if (!flow)
		flow = find_flow(&embryonic, key);
	if (!flow || is_elsewhere(flow, skb->ifindex) || !copy_step(&error->step, flow, key))
		return false;
	if (direction == FLOW_DIRECTION_EGRESS)
		return true;
	return error->step.flags & FLOW_FLAG_DIRECT ? first_device(skb) : accepting_device(skb);
}

/*
 * Is the error, as its receiver should see it, from the address that the flow
 * shows? One of the flow's end is. A client outside sees the address that it
 * asked, whoever this side of the frontend found the fault (RFC 5508, REQ-4):
 * it may know no way to another, and a router may drop what claims to come from
 * itself. Inside, a router or this node keeps its own.
 */
static __always_inline bool shows_flow(const struct icmp_error *error)
{
	if (error->key.direction == FLOW_DIRECTION_EGRESS && error->step.flags & FLOW_FLAG_EXTERNAL)
		return true;
	return SAME(&error->outer.source, &error->key.tuple.source);
}

/*
 * Where the quoted packet's transport checksum is; 0: not quoted, or it has none.
 * SCTP's is over more than is quoted, and nobody looks at it.
 */
static __always_inline __u32 quoted_checksum(struct __sk_buff *skb, const struct icmp_error *error,
					     __u16 *checksum)
{
	__u8 protocol = error->quoted.at.protocol;
	__u32 at = error->quoted.at.transport +
		   (protocol == IPPROTO_TCP ? offsetof(struct tcphdr, check) : offsetof(struct udphdr, check));

	if (protocol == IPPROTO_SCTP || at + sizeof(*checksum) > error->outer.end ||
	    bpf_skb_load_bytes(skb, at, checksum, sizeof(*checksum)))
		return 0;
	return protocol == IPPROTO_UDP && !*checksum ? 0 : at;
}

/* Gives the quoted packet the tuple `to`. Returns what that changes the message's checksum by; negative: refused. */
static __always_inline __s64 rewrite_quoted(struct __sk_buff *skb, const struct icmp_error *error,
					    const struct tuple *from, const struct tuple *to)
{
	__be16 ports[2] = { to->source_port, to->destination_port };
	__u32 change = fold_to_32(sum_change(from->source_port, to->source_port) +
				  sum_change(from->destination_port, to->destination_port));
	__u64 sum = (__u64)change + icmp_addresses_change(from, to);
	__u16 before, after;
	__u32 at = quoted_checksum(skb, error, &before);

	if (at) {
		change = fold_to_32((__u64)change + addresses_change(from, to));
		after = ~fold_to_16((__u16)~before + fold_to_16(change));
		if (!after && error->quoted.at.protocol == IPPROTO_UDP)
			after = 0xffff;
		sum += sum_change(before, after);
		if (bpf_skb_store_bytes(skb, at, &after, sizeof(after), 0))
			return -1;
	}
	if (bpf_skb_store_bytes(skb, error->quoted.at.transport, ports, sizeof(ports), 0) ||
	    !store_addresses(skb, error->quote, from, to))
		return -1;
	return fold_to_32(sum);
}

/* Gives the message itself the addresses of `to`, and the checksum that it has after `change`. */
static __always_inline bool rewrite_outer(struct __sk_buff *skb, const struct icmp_error *error,
					  const struct tuple *from, const struct tuple *to, __u32 change)
{
	__u32 at = error->outer.at.transport + offsetof(struct icmp_header, checksum);
	__u16 checksum;

	change = fold_to_32((__u64)change + icmp_addresses_change(from, to));
	checksum = ~fold_to_16((__u16)~error->checksum + fold_to_16(change));
	return !bpf_skb_store_bytes(skb, at, &checksum, sizeof(checksum), 0) &&
	       store_addresses(skb, error->start, from, to);
}

/*
 * The sums over the message stay what they were, right or wrong, so nothing has
 * to be told to an skb that is CHECKSUM_COMPLETE; no ICMP message is
 * CHECKSUM_PARTIAL. 1: done; 0: the kernel refused, it is half written.
 */
__noinline int rewrite_error(struct __sk_buff *skb, struct icmp_error *error)
{
	struct tuple from, to;
	__s64 change;

	if (!error)
		return 0;
	reverse(&from, &error->key.tuple);
	reverse(&to, &error->step.to);
	change = rewrite_quoted(skb, error, &from, &to);
	if (change < 0)
		return 0;
	from.source = error->outer.source;
	from.destination = error->outer.destination;
	to.source = shows_flow(error) ? error->step.to.source : from.source;
	to.destination = error->step.to.destination;
	return rewrite_outer(skb, error, &from, &to, change);
}

/* What is no error about a packet of a flow, or a malformed one, passes untouched. `link`: bytes of the link-layer header. */
__noinline int translate_error(struct __sk_buff *skb, int direction, __u32 link)
{
	struct scratch *scratch = get_scratch();
	struct icmp_error *error;

	if (!scratch)
		return VERDICT_NEXT;
	error = &scratch->error;
	if (!read_error(skb, error, link) || !find_step(skb, error, direction))
		return VERDICT_NEXT;
	if (error->type == ICMP_REDIRECT) {
		if (direction == FLOW_DIRECTION_INGRESS)
			return VERDICT_NEXT;
		/* A host that routed a frame back into its bridge tells of a shorter way, by an address not to be known. */
		count_drop(DROP_REASON_ICMP_REDIRECT);
		report_packet(&error->key, skb->ifindex, DROP_REASON_ICMP_REDIRECT);
		return VERDICT_DROP;
	}
	if (!rewrite_error(skb, error)) {
		count_drop(DROP_REASON_REWRITE_FAILED);
		report_packet(&error->key, skb->ifindex, DROP_REASON_REWRITE_FAILED);
		return VERDICT_DROP;
	}
	if (direction == FLOW_DIRECTION_EGRESS)
		return VERDICT_NEXT;
	return send_on(skb, &error->key.tuple, &error->step, link);
}

#endif
