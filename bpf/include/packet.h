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

#include <linux/if_packet.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include "maps.h"
#include "sctp.h"
#include "stats.h"

#if FAMILY == 4
#include "ipv4.h"
#else
#include "ipv6.h"
#endif

/* Decisions within a program, beside what it tells the kernel (marks.h). */
#define VERDICT_STEP 100   /* rewrite the packet */
#define VERDICT_REJECT 101 /* answer it with a refusal */
#define VERDICT_OPEN 102   /* balance it: a new flow */
#define VERDICT_DIRECT 103 /* no frontend's; a backend's own address perhaps */
#define VERDICT_HOLD 104   /* let it wait: its flow changes hands */

#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

/* What the decisions need of a packet: plain data, good whatever happens to the skb. */
struct packet {
	union {
		struct flow_key key; /* of its flow, confirmed or not */
		struct {
			struct tuple tuple;
			__u8 protocol;
			__u8 direction;
			__u16 zero;
		};
	};
	__u32 tcp_flags;    /* SCTP's chunk is told in them too */
	__u32 sequence;	    /* TCP's, host order; SCTP's initiate tag */
	__u32 acknowledged; /* TCP's, host order; SCTP's verification tag and one */
	__u32 ifindex;	    /* the device at whose hook it is */
	__u32 length;	    /* bytes from the IP header on */
};

/* Where it is written, verified. */
struct headers {
	ip_header_t *ip;
	__u32 link;	      /* bytes of the link-layer header, which an L3 device's packets lack */
	__u32 transport;      /* bytes from the start of the frame */
	__u32 is_fragment;    /* not the whole datagram */
	struct udphdr *ports; /* the transport header; NULL in a later fragment */
	struct tcphdr *tcp;   /* the same; NULL unless it is TCP's */
};

enum parsed {
	PARSED_OK,
	PARSED_OTHER,	 /* not TCP, UDP or SCTP, or malformed: not ours to judge */
	PARSED_FRAGMENT, /* a later fragment, its first not seen */
};

static __always_inline bool is_opening(const struct packet *packet)
{
	return packet->protocol == IPPROTO_UDP ||
	       (packet->tcp_flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN;
}

/*
 * The key of a look-up, on the stack of who looks up: a global function that is
 * given a pointer must not look up by it, verifiers before 6.2 take no such memory
 * for a map's key.
 */
static __always_inline struct flow_key own_key(const struct flow_key *given)
{
	return *given;
}

/*
 * The first fragment tells the later ones' ports; they have no header, and in
 * IPv6 they need not say the protocol either.
 */
__noinline int parse_fragment(struct packet *packet, struct placement *at)
{
	struct fragment *known, noted = {};
	struct fragment_key key = {};

	if (!packet || !at)
		return PARSED_OTHER;
	key.source = packet->tuple.source;
	key.destination = packet->tuple.destination;
	key.id = at->datagram;
	key.protocol = at->datagram_protocol;
	if (!at->is_later) {
		noted.key = key;
		noted.source_port = packet->tuple.source_port;
		noted.destination_port = packet->tuple.destination_port;
		noted.protocol = packet->protocol;
		bpf_map_update_elem(&fragments, &key, &noted, BPF_ANY);
		return PARSED_OK;
	}
	known = bpf_map_lookup_elem(&fragments, &key);
	if (!known)
		return PARSED_FRAGMENT;
	packet->tuple.source_port = known->source_port;
	packet->tuple.destination_port = known->destination_port;
	packet->protocol = known->protocol;
	barrier();
	return SAME(&known->key, &key) ? PARSED_OK : PARSED_FRAGMENT;
}

/* What a flow has to know of an SCTP packet, in TCP's words. False: a header is not all there. */
static __always_inline bool parse_sctp(struct packet *packet, const struct sctp_header *sctp, void *end)
{
	if ((void *)&sctp->initiate_tag > end)
		return false;
	packet->tcp_flags = TCP_ACK;
	packet->acknowledged = bpf_ntohl(sctp->tag) + 1;
	switch (sctp->chunk) {
	case SCTP_INIT:
	case SCTP_INIT_ACK:
		if ((void *)(sctp + 1) > end)
			return false;
		packet->tcp_flags = sctp->chunk == SCTP_INIT ? TCP_SYN : TCP_SYN | TCP_ACK;
		packet->sequence = bpf_ntohl(sctp->initiate_tag);
		break;
	case SCTP_ABORT:
		packet->tcp_flags = TCP_RST | TCP_ACK;
		break;
	case SCTP_SHUTDOWN:
	case SCTP_SHUTDOWN_ACK:
	case SCTP_SHUTDOWN_COMPLETE:
		packet->tcp_flags = TCP_FIN | TCP_ACK;
		break;
	}
	return true;
}

/* The transport header, if all of it is there. */
static __always_inline bool parse_transport(struct packet *packet, struct headers *headers, void *transport,
					    void *end)
{
	if (packet->protocol == IPPROTO_TCP) {
		if (transport + sizeof(struct tcphdr) > end)
			return false;
		headers->tcp = transport;
		packet->tcp_flags = ((__u8 *)transport)[13];
		packet->sequence = bpf_ntohl(headers->tcp->seq);
		packet->acknowledged = bpf_ntohl(headers->tcp->ack_seq);
	} else if (packet->protocol == IPPROTO_UDP) {
		if (transport + sizeof(struct udphdr) > end)
			return false;
	} else if (packet->protocol != IPPROTO_SCTP || transport + sizeof(struct udphdr) > end ||
		   !parse_sctp(packet, transport, end)) {
		return false;
	}
	headers->ports = transport;
	packet->tuple.source_port = headers->ports->source;
	packet->tuple.destination_port = headers->ports->dest;
	return true;
}

/* Makes the first `need` bytes, or all there are, readable in place. */
static __always_inline bool pull(struct __sk_buff *skb, __u32 need)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	if (need > skb->len)
		need = skb->len;
	return data + need <= end || !bpf_skb_pull_data(skb, need);
}

/*
 * Fills `packet` and `headers`; the IP header begins at `link`. Headers that the skb holds outside its linear
 * part are pulled in. A datagram that ends before its transport header is
 * "other".
 */
static __always_inline enum parsed parse(struct __sk_buff *skb, struct packet *packet, struct headers *headers,
					 __u8 direction, __u32 link)
{
	struct placement at;
	void *data, *end;
	ip_header_t *ip;

	if (!pull(skb, link + sizeof(*ip) + sizeof(struct tcphdr)))
		return PARSED_OTHER;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	ip = data + link;
	if ((void *)(ip + 1) > end || !is_sound(ip) || !find_transport(skb, ip, link, &at))
		return PARSED_OTHER;
	if (at.transport > link + sizeof(*ip)) {
		/* With options the first pull may have been short. */
		if (!pull(skb, at.transport + sizeof(struct tcphdr)))
			return PARSED_OTHER;
		data = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
		ip = data + link;
		if ((void *)(ip + 1) > end)
			return PARSED_OTHER;
		at.transport = bounded(at.transport);
	}
	__builtin_memset(packet, 0, sizeof(*packet));
	packet->ifindex = skb->ifindex;
	packet->length = skb->len - link;
	packet->protocol = at.protocol;
	packet->direction = direction;
	packet->tuple.source = source_of(ip);
	packet->tuple.destination = destination_of(ip);
	headers->ip = ip;
	headers->link = link;
	headers->transport = at.transport;
	headers->is_fragment = at.is_fragment;
	headers->ports = NULL;
	headers->tcp = NULL;
	if (!at.is_later && !parse_transport(packet, headers, data + at.transport, end))
		return PARSED_OTHER;
	return at.is_fragment ? parse_fragment(packet, &at) : PARSED_OK;
}

/*
 * Brings the transport checksum from one tuple to another. It starts from the
 * received one and goes through the helper, which alone knows whether the skb is
 * CHECKSUM_PARTIAL (the field holds the pseudo-header's sum, ports do not count,
 * and a change is added) or not (the field is a complement, from which a change
 * is taken away), and keeps CHECKSUM_COMPLETE right. What it made of the
 * addresses' change tells the two apart, which saves a second call for the
 * ports: they change data and checksum by the same, nothing else.
 */
static __always_inline bool rewrite_checksum(struct __sk_buff *skb, __u32 offset, __u16 before, __u32 addresses,
					     __u32 ports, __u64 flags)
{
	__u16 change = fold_to_16(addresses), complement = ~fold_to_16((__u16)~before + change);
	void *data, *end;
	__u16 *check;

	if (bpf_l4_csum_replace(skb, offset, 0, addresses, pseudo_header_flags(skb, addresses) | flags))
		return false;
	if (!ports)
		return true;
	if (!change || change == 0xffff)
		return !bpf_l4_csum_replace(skb, offset, 0, ports, flags); /* both kinds look the same */
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	check = data + bounded(offset);
	if ((void *)(check + 1) > end)
		return false;
	if (flags && !complement)
		complement = 0xffff;
	if (*check != complement)
		return true; /* partial */
	complement = ~fold_to_16((__u16)~complement + fold_to_16(ports));
	*check = flags && !complement ? 0xffff : complement;
	return true;
}

/*
 * The ports of an SCTP packet, and its CRC. A field of zero is left alone: the
 * device fills it in (CHECKSUM_PARTIAL), or the ends do without (RFC 9653). Of a
 * fragment the rest is not there to tell how long the packet is: 0.
 */
__noinline int rewrite_sctp(struct __sk_buff *skb, __u32 transport, __u32 length, __u32 ports)
{
	__u32 before[3], difference, crc;

	if (bpf_skb_load_bytes(skb, transport, before, sizeof(before)))
		return 0;
	difference = before[0] ^ ports;
	if (!difference)
		return 1;
	if (bpf_skb_store_bytes(skb, transport, &ports, sizeof(ports), 0))
		return 0;
	crc = before[2];
	if (crc) {
		crc ^= crc32c_change(difference, length);
		if (!length || bpf_skb_store_bytes(skb, transport + offsetof(struct sctp_header, checksum), &crc,
						   sizeof(crc), 0))
			return 0;
	}
	/* No sum evens out what changed, where the skb has one (CHECKSUM_COMPLETE). */
	bpf_csum_update(skb, fold_to_32(sum_change(before[0], ports) + sum_change(before[2], crc)));
	return 1;
}

/*
 * Gives the packet the tuple `to`. Returns false when the kernel refused; the
 * packet is then half written.
 */
static __always_inline bool rewrite(struct __sk_buff *skb, const struct packet *packet,
				    const struct headers *headers, const struct tuple *to)
{
	const struct tuple *from = &packet->tuple;
	__u32 check = headers->transport;
	__u32 addresses = addresses_change(from, to);
	__u32 ports = from->source_port == to->source_port && from->destination_port == to->destination_port ?
			      0 :
			      fold_to_32(sum_change(from->source_port, to->source_port) +
					 sum_change(from->destination_port, to->destination_port));
	__u64 flags = 0;
	__u16 before;

	write_addresses(headers->ip, to, addresses);
	if (!headers->ports) {
		keep_sum(skb, addresses, 0);
		return true;
	}
	if (headers->tcp) {
		check += offsetof(struct tcphdr, check);
		before = headers->tcp->check;
	} else if (packet->protocol == IPPROTO_SCTP) {
		__u32 length = payload_length(headers->ip, headers->transport - headers->link);

		keep_sum(skb, addresses, 0);
		return rewrite_sctp(skb, headers->transport, headers->is_fragment ? 0 : length,
				    to->source_port | (__u32)to->destination_port << 16);
	} else {
		check += offsetof(struct udphdr, check);
		before = headers->ports->check;
		flags = BPF_F_MARK_MANGLED_0;
	}
	headers->ports->source = to->source_port;
	headers->ports->dest = to->destination_port;
	if (flags && !before) {
		/* Without a checksum; IPv6 forbids that but for tunnels (RFC 6935). */
		keep_sum(skb, addresses, ports);
		return true;
	}
	return rewrite_checksum(skb, check, before, addresses, ports, flags);
}

#endif
