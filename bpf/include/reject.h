/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Refusals: a RST for TCP (RFC 9293, 3.10.7.1), an ICMP port unreachable for
 * UDP (RFC 1122, 3.2.2.1), written over the packet and sent back out of its
 * device.
 */
#ifndef SLUICE_REJECT_H
#define SLUICE_REJECT_H

#include "device.h"

#define DEFAULT_TTL 64

static __always_inline struct iphdr answer_header(const struct packet *packet, __u8 protocol, __u16 length)
{
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tot_len = bpf_htons(length),
		.frag_off = bpf_htons(0x4000), /* do not fragment */
		.ttl = DEFAULT_TTL,
		.protocol = protocol,
		.saddr = packet->tuple.destination,
		.daddr = packet->tuple.source,
	};

	ip.check = ~fold_to_16(bpf_csum_diff(NULL, 0, (__be32 *)&ip, sizeof(ip), 0));
	return ip;
}

/*
 * Is the skb CHECKSUM_PARTIAL? No field tells, but a change that is not the
 * pseudo-header's leaves the checksum of such a packet as it is.
 */
static __always_inline bool is_partial(struct __sk_buff *skb, __u32 check_offset)
{
	__u16 before, after;

	if (bpf_skb_load_bytes(skb, check_offset, &before, sizeof(before)) ||
	    bpf_l4_csum_replace(skb, check_offset, 0, 1, 0) ||
	    bpf_skb_load_bytes(skb, check_offset, &after, sizeof(after)))
		return false;
	return before == after;
}

static __noinline int reject_tcp(struct __sk_buff *skb, const struct packet *packet,
				 const struct headers *headers)
{
	struct {
		struct iphdr ip;
		struct tcphdr tcp;
	} answer = {};
	struct {
		__be32 source, destination;
		__u8 zero, protocol;
		__be16 length;
	} pseudo;
	struct tcphdr *tcp = headers->tcp;
	__u32 header = headers->ip->ihl * 4;
	__u32 sum, length = bpf_ntohs(headers->ip->tot_len) - header - tcp->doff * 4;
	bool partial;

	if (packet->tcp_flags & TCP_RST)
		return VERDICT_DROP;
	answer.ip = answer_header(packet, IPPROTO_TCP, sizeof(answer));
	answer.tcp.source = packet->tuple.destination_port;
	answer.tcp.dest = packet->tuple.source_port;
	answer.tcp.doff = sizeof(answer.tcp) / 4;
	answer.tcp.rst = 1;
	if (packet->tcp_flags & TCP_ACK) {
		answer.tcp.seq = bpf_htonl(packet->acknowledged);
	} else {
		length += !!(packet->tcp_flags & TCP_SYN) + !!(packet->tcp_flags & TCP_FIN);
		answer.tcp.ack = 1;
		answer.tcp.ack_seq = bpf_htonl(packet->sequence + length);
	}
	pseudo.source = answer.ip.saddr;
	pseudo.destination = answer.ip.daddr;
	pseudo.zero = 0;
	pseudo.protocol = IPPROTO_TCP;
	pseudo.length = bpf_htons(sizeof(answer.tcp));

	partial = is_partial(skb, ETH_HLEN + header + offsetof(struct tcphdr, check));
	/* With options the partial checksum's place would move; such a packet gets silence. */
	if (partial && header != sizeof(struct iphdr))
		return VERDICT_DROP;
	sum = bpf_csum_diff(NULL, 0, (__be32 *)&pseudo, sizeof(pseudo), 0);
	if (partial)
		answer.tcp.check = fold_to_16(sum);
	else
		answer.tcp.check = ~fold_to_16(bpf_csum_diff(NULL, 0, (__be32 *)&answer.tcp, sizeof(answer.tcp), sum));
	if (bpf_skb_change_tail(skb, ETH_HLEN + sizeof(answer), 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN, &answer, sizeof(answer), BPF_F_RECOMPUTE_CSUM))
		return VERDICT_DROP;
	return send_back(skb);
}

/*
 * The quoted datagram is its IP header without options and eight bytes. When the
 * skb is CHECKSUM_PARTIAL the device will write the sum of all that follows the
 * IP header into the unused field of the ICMP header, which keeps the sum right.
 */
static __noinline int reject_udp(struct __sk_buff *skb, const struct packet *packet,
				 const struct headers *headers)
{
	struct {
		struct iphdr ip;
		struct icmphdr icmp;
		struct iphdr quoted;
		struct udphdr udp;
	} answer = {};

	answer.ip = answer_header(packet, IPPROTO_ICMP, sizeof(answer));
	answer.icmp.type = ICMP_DEST_UNREACH;
	answer.icmp.code = ICMP_PORT_UNREACH;
	answer.quoted = *headers->ip;
	answer.udp = *headers->ports;
	if (answer.quoted.ihl != 5) {
		answer.quoted.ihl = 5;
		answer.quoted.check = 0;
		answer.quoted.check = ~fold_to_16(
			bpf_csum_diff(NULL, 0, (__be32 *)&answer.quoted, sizeof(answer.quoted), 0));
	}
	answer.icmp.checksum = ~fold_to_16(bpf_csum_diff(NULL, 0, (__be32 *)&answer.icmp,
							  sizeof(answer) - sizeof(answer.ip), 0));
	if (bpf_skb_change_tail(skb, ETH_HLEN + sizeof(answer), 0) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN, &answer, sizeof(answer), BPF_F_RECOMPUTE_CSUM))
		return VERDICT_DROP;
	return send_back(skb);
}

/* A later fragment has no header to answer to: silence. */
static __always_inline int reject(struct __sk_buff *skb, const struct packet *packet, const struct headers *headers)
{
	if (headers->tcp)
		return reject_tcp(skb, packet, headers);
	return headers->ports ? reject_udp(skb, packet, headers) : VERDICT_DROP;
}

#endif
