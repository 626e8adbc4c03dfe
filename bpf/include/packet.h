/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One packet: reading it, and writing another tuple into it.
 *
 * parse() checks every bound once, copies what decisions need into struct packet
 * and leaves the verified pointers in struct headers. These are good until a
 * helper changes the skb, which is why rewrite() stores first and repairs
 * checksums last.
 */
#ifndef SLUICE_PACKET_H
#define SLUICE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include "maps.h"
#include "stats.h"

/* Newer than the oldest headers we build with. The same as TC_ACT_*. */
#define VERDICT_NEXT -1
#define VERDICT_DROP 2
/* Decisions within a program. */
#define VERDICT_STEP 100   /* rewrite the packet */
#define VERDICT_REJECT 101 /* answer it with a refusal */
#define VERDICT_OPEN 102   /* balance it: a new flow */
#define VERDICT_DIRECT 103 /* no frontend's; a backend's own address perhaps */

#ifndef AF_INET
#define AF_INET 2
#endif

#define IP_MORE_FRAGMENTS 0x2000
#define IP_FRAGMENT_OFFSET 0x1fff

/* <linux/icmp.h> drags in the C library. */
#define ICMP_DEST_UNREACH 3
#define ICMP_PORT_UNREACH 3
#define ICMP_REDIRECT 5

struct icmphdr {
	__u8 type;
	__u8 code;
	__sum16 checksum;
	__be32 rest;
};

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

/* What the decisions need of a packet: plain data, good whatever happens to the skb. */
struct packet {
	struct tuple tuple;
	__u8 protocol;
	__u8 tcp_flags;
	__u8 has_ports; /* there is a transport header: not a later fragment */
	__u8 zero;
	__u32 sequence;	    /* TCP's, host order */
	__u32 acknowledged; /* TCP's, host order */
	__u32 ifindex;	    /* the device at whose hook it is */
};

/* Where it is written, verified. */
struct headers {
	struct iphdr *ip;
	struct udphdr *ports; /* the transport header; NULL in a later fragment */
	struct tcphdr *tcp;   /* the same; NULL unless it is TCP's */
};

enum parsed {
	PARSED_OK,
	PARSED_OTHER,	 /* not TCP or UDP, or malformed: not ours to judge */
	PARSED_FRAGMENT, /* a later fragment, its first not seen */
};

static __always_inline bool is_opening(const struct packet *packet)
{
	return packet->protocol == IPPROTO_UDP ||
	       (packet->tcp_flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN;
}

/* The first fragment tells the later ones' ports; they have no header. */
static __always_inline enum parsed parse_fragment(struct packet *packet, __u16 id, __u16 offset)
{
	struct fragment_key key = {
		.source = packet->tuple.source,
		.destination = packet->tuple.destination,
		.id = id,
		.protocol = packet->protocol,
	};
	struct fragment *known, noted = { .key = key };

	if (!(offset & IP_FRAGMENT_OFFSET)) {
		noted.source_port = packet->tuple.source_port;
		noted.destination_port = packet->tuple.destination_port;
		bpf_map_update_elem(&fragments, &key, &noted, BPF_ANY);
		return PARSED_OK;
	}
	known = bpf_map_lookup_elem(&fragments, &key);
	if (!known)
		return PARSED_FRAGMENT;
	packet->tuple.source_port = known->source_port;
	packet->tuple.destination_port = known->destination_port;
	barrier();
	if (!SAME(&known->key, &key))
		return PARSED_FRAGMENT;
	return PARSED_OK;
}

/*
 * Fills `packet` and `headers`. Headers that the skb holds outside its linear part are pulled
 * in once. A datagram that ends before its transport header is "other".
 */
static __always_inline enum parsed parse(struct __sk_buff *skb, struct packet *packet, struct headers *headers)
{
	void *data, *end, *l4;
	struct iphdr *ip;
	__u32 l4_offset, need = ETH_HLEN + sizeof(*ip) + sizeof(struct tcphdr);
	__u16 fragment;

	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (need > skb->len)
		need = skb->len;
	if (data + need > end) {
		if (bpf_skb_pull_data(skb, need))
			return PARSED_OTHER;
		data = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
	}
	ip = data + ETH_HLEN;
	if ((void *)(ip + 1) > end || ip->version != 4 || ip->ihl < 5)
		return PARSED_OTHER;
	l4_offset = ETH_HLEN + ip->ihl * 4;
	if (ip->ihl > 5) {
		/* Options are rare; then the first pull may have been short. */
		need = l4_offset + sizeof(struct tcphdr);
		if (need > skb->len)
			need = skb->len;
		if (data + need > end && bpf_skb_pull_data(skb, need))
			return PARSED_OTHER;
		data = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
		ip = data + ETH_HLEN;
		if ((void *)(ip + 1) > end)
			return PARSED_OTHER;
	}
	l4 = data + l4_offset;
	packet->ifindex = skb->ifindex;
	headers->ip = ip;
	headers->ports = NULL;
	headers->tcp = NULL;
	packet->tcp_flags = 0;
	packet->has_ports = 0;
	packet->zero = 0;
	packet->sequence = 0;
	packet->acknowledged = 0;
	packet->protocol = ip->protocol;
	packet->tuple.source = ip->saddr;
	packet->tuple.destination = ip->daddr;
	fragment = bpf_ntohs(ip->frag_off) & (IP_MORE_FRAGMENTS | IP_FRAGMENT_OFFSET);
	if (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP)
		return PARSED_OTHER;
	if (fragment & IP_FRAGMENT_OFFSET)
		return parse_fragment(packet, ip->id, fragment);
	if (ip->protocol == IPPROTO_TCP) {
		if (l4 + sizeof(struct tcphdr) > end)
			return PARSED_OTHER;
		headers->tcp = l4;
		packet->tcp_flags = ((__u8 *)l4)[13];
		packet->sequence = bpf_ntohl(headers->tcp->seq);
		packet->acknowledged = bpf_ntohl(headers->tcp->ack_seq);
	} else if (l4 + sizeof(struct udphdr) > end) {
		return PARSED_OTHER;
	}
	headers->ports = l4;
	packet->has_ports = 1;
	packet->tuple.source_port = headers->ports->source;
	packet->tuple.destination_port = headers->ports->dest;
	return fragment ? parse_fragment(packet, ip->id, fragment) : PARSED_OK;
}

/* One's complement: what a sum changes by when `from` becomes `to`. */
static __always_inline __u64 sum_change(__u32 from, __u32 to)
{
	return (__u64)(__u32)~from + to;
}

static __always_inline __u32 fold_to_32(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	return (sum & 0xffffffff) + (sum >> 32);
}

static __always_inline __u16 fold_to_16(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/*
 * Gives the packet the tuple `to`. Checksums start from the received ones and
 * go through the helper, which alone knows whether the skb is CHECKSUM_PARTIAL
 * (the field holds the pseudo-header's sum: ports do not count) or COMPLETE.
 * Returns false when the kernel refused; the packet is then half written.
 */
static __always_inline bool rewrite(struct __sk_buff *skb, const struct packet *packet,
				    const struct headers *headers, const struct tuple *to)
{
	const struct tuple *from = &packet->tuple;
	struct iphdr *ip = headers->ip;
	__u32 addresses = fold_to_32(sum_change(from->source, to->source) +
				     sum_change(from->destination, to->destination));
	__u32 ports = fold_to_32(sum_change(from->source_port, to->source_port) +
				 sum_change(from->destination_port, to->destination_port));
	__u32 check_offset = ETH_HLEN + ip->ihl * 4;
	__u64 flags = 0;

	ip->saddr = to->source;
	ip->daddr = to->destination;
	ip->check = ~fold_to_16((__u32)(__u16)~ip->check + fold_to_16(addresses));
	if (!headers->ports)
		return true;
	if (packet->protocol == IPPROTO_TCP) {
		check_offset += offsetof(struct tcphdr, check);
	} else {
		check_offset += offsetof(struct udphdr, check);
		flags = BPF_F_MARK_MANGLED_0;
	}
	headers->ports->source = to->source_port;
	headers->ports->dest = to->destination_port;
	if (bpf_l4_csum_replace(skb, check_offset, 0, addresses, BPF_F_PSEUDO_HDR | flags))
		return false;
	if (from->source_port == to->source_port && from->destination_port == to->destination_port)
		return true;
	return !bpf_l4_csum_replace(skb, check_offset, 0, ports, flags);
}

#endif
