/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * All that is IPv4's own. Everything else knows addresses as addr_t, the header
 * as ip_header_t, and is the same code in both families.
 */
#ifndef SLUICE_IPV4_H
#define SLUICE_IPV4_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <bpf/bpf_endian.h>
#include "checksum.h"
#include "maps.h"
#include "placement.h"

#ifndef AF_INET
#define AF_INET 2
#endif

#define ETHERTYPE ETH_P_IP
#define IP_MORE_FRAGMENTS 0x2000
#define IP_FRAGMENT_OFFSET 0x1fff
#define IP_DO_NOT_FRAGMENT 0x4000
#define DEFAULT_TTL 64

/* <linux/icmp.h> drags in the C library. */
#define ICMP_UNREACHABLE 3
#define ICMP_UNREACHABLE_PORT 3
#define ICMP_REDIRECT 5
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETER_PROBLEM 12
#define ICMP_PROTOCOL IPPROTO_ICMP

typedef struct iphdr ip_header_t;

struct icmp_header {
	__u8 type;
	__u8 code;
	__sum16 checksum;
	__be32 rest;
};

static __always_inline __be32 word_of(addr_t address)
{
	return *(__be32 *)address.bytes;
}

static __always_inline addr_t address_of(__be32 word)
{
	addr_t address;

	*(__be32 *)address.bytes = word;
	return address;
}

static __always_inline bool is_loopback(const addr_t *address)
{
	return address->bytes[0] == 127;
}

static __always_inline addr_t source_of(const ip_header_t *ip)
{
	return address_of(ip->saddr);
}

static __always_inline addr_t destination_of(const ip_header_t *ip)
{
	return address_of(ip->daddr);
}

static __always_inline __u8 protocol_of(const ip_header_t *ip)
{
	return ip->protocol;
}

/* A header that the programs may act on. */
static __always_inline bool is_sound(const ip_header_t *ip)
{
	return ip->version == 4 && ip->ihl >= 5;
}

static __always_inline bool has_options(const ip_header_t *ip)
{
	return ip->ihl != 5;
}

/* Bytes from the start of the header to the transport header. */
static __always_inline __u32 header_length(const ip_header_t *ip)
{
	return ip->ihl * 4;
}

/* Bytes behind `header` bytes of headers. */
static __always_inline __u32 payload_length(const ip_header_t *ip, __u32 header)
{
	return bpf_ntohs(ip->tot_len) - header;
}

/* Where the transport header of a sound header at `offset` is. False: its protocol is none of ours. */
static __always_inline bool find_transport(struct __sk_buff *skb, const ip_header_t *ip, __u32 offset,
					   struct placement *at)
{
	__u16 bits = bpf_ntohs(ip->frag_off);

	(void)skb;
	at->transport = offset + header_length(ip);
	at->protocol = ip->protocol;
	at->datagram = ip->id;
	at->datagram_protocol = ip->protocol;
	at->is_fragment = !!(bits & (IP_MORE_FRAGMENTS | IP_FRAGMENT_OFFSET));
	at->is_later = !!(bits & IP_FRAGMENT_OFFSET);
	return has_ports(ip->protocol);
}

/* What the transport checksum's pseudo-header changes by. */
static __always_inline __u32 addresses_change(const struct tuple *from, const struct tuple *to)
{
	return fold_to_32(sum_change(word_of(from->source), word_of(to->source)) +
			  sum_change(word_of(from->destination), word_of(to->destination)));
}

/*
 * Flags of bpf_l4_csum_replace() for a change of the addresses. The header's own
 * checksum hides it from the sum over the packet (CHECKSUM_COMPLETE), but
 * not what it changes in the transport header.
 */
static __always_inline __u64 pseudo_header_flags(struct __sk_buff *skb, __u32 change)
{
	(void)skb;
	(void)change;
	return BPF_F_PSEUDO_HDR;
}

/* Writes both addresses; `change` is addresses_change() of the same tuples. */
static __always_inline void write_addresses(ip_header_t *ip, const struct tuple *to, __u32 change)
{
	ip->saddr = word_of(to->source);
	ip->daddr = word_of(to->destination);
	ip->check = ~fold_to_16((__u32)(__u16)~ip->check + fold_to_16(change));
}

/*
 * Keeps the sum over the packet (CHECKSUM_COMPLETE) right where no transport
 * checksum takes part: the header's own evens out what the addresses change.
 */
static __always_inline void keep_sum(struct __sk_buff *skb, __u32 addresses, __u32 ports)
{
	(void)addresses;
	if (ports)
		bpf_csum_update(skb, ports);
}

static __always_inline void seal_header(ip_header_t *ip)
{
	ip->check = 0;
	ip->check = ~fold_to_16(bpf_csum_diff(NULL, 0, (__be32 *)ip, sizeof(*ip), 0));
}

/* The header of our own answer to a packet of `asked`. */
static __always_inline ip_header_t answer_header(const struct tuple *asked, __u8 protocol, __u16 payload)
{
	ip_header_t ip = {
		.version = 4,
		.ihl = 5,
		.tot_len = bpf_htons(sizeof(ip) + payload),
		.frag_off = bpf_htons(IP_DO_NOT_FRAGMENT),
		.ttl = DEFAULT_TTL,
		.protocol = protocol,
		.saddr = word_of(asked->destination),
		.daddr = word_of(asked->source),
	};

	seal_header(&ip);
	return ip;
}

/* The header as an ICMP error quotes it: without options. */
static __always_inline ip_header_t quoted_header(const ip_header_t *ip, __u8 protocol)
{
	ip_header_t quoted = *ip;

	(void)protocol;
	if (has_options(ip)) {
		quoted.ihl = 5;
		seal_header(&quoted);
	}
	return quoted;
}

/*
 * Does a message of this type quote a packet to tell its sender something of it?
 * (RFC 792. Hosts ignore source quench, RFC 6633.)
 */
static __always_inline bool quotes_packet(__u8 type)
{
	return type == ICMP_UNREACHABLE || type == ICMP_REDIRECT || type == ICMP_TIME_EXCEEDED ||
	       type == ICMP_PARAMETER_PROBLEM;
}

/* Where such a message at `icmp` quotes the packet. */
static __always_inline __u32 find_quote(struct __sk_buff *skb, __u32 icmp, __u8 type)
{
	(void)skb;
	(void)type;
	return icmp + sizeof(struct icmp_header);
}

/* Reads the header at `offset`; false when it is none. */
static __always_inline bool locate(struct __sk_buff *skb, __u32 offset, struct located *located)
{
	ip_header_t ip;

	if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)) || !is_sound(&ip))
		return false;
	find_transport(skb, &ip, offset, &located->at);
	located->source = source_of(&ip);
	located->destination = destination_of(&ip);
	located->end = offset + bpf_ntohs(ip.tot_len);
	return true;
}

/* Writes both addresses into the header at `offset`. */
static __always_inline bool store_addresses(struct __sk_buff *skb, __u32 offset, const struct tuple *from,
					    const struct tuple *to)
{
	ip_header_t ip;

	if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)))
		return false;
	write_addresses(&ip, to, addresses_change(from, to));
	return !bpf_skb_store_bytes(skb, offset, &ip, sizeof(ip), 0);
}

/*
 * What new addresses change an ICMP checksum by, in the header of the message or
 * in the one it quotes: nothing. There is no pseudo-header, and the quoted
 * header's own checksum takes back what the addresses add.
 */
static __always_inline __u32 icmp_addresses_change(const struct tuple *from, const struct tuple *to)
{
	(void)from;
	(void)to;
	return 0;
}

/* The sum over the pseudo-header of `ip`, folded to 32 bits. */
static __always_inline __u32 pseudo_header_sum(const ip_header_t *ip, __u16 payload)
{
	struct {
		__be32 source, destination;
		__u8 zero, protocol;
		__be16 length;
	} pseudo = {
		.source = ip->saddr,
		.destination = ip->daddr,
		.protocol = ip->protocol,
		.length = bpf_htons(payload),
	};

	return bpf_csum_diff(NULL, 0, (__be32 *)&pseudo, sizeof(pseudo), 0);
}

/* An ICMP checksum starts from nothing; ICMPv6's from the pseudo-header. */
static __always_inline __u32 icmp_sum_start(const ip_header_t *ip, __u16 payload)
{
	(void)ip;
	(void)payload;
	return 0;
}

static __always_inline void set_route_addresses(struct bpf_fib_lookup *fib, const addr_t *source,
						const addr_t *destination)
{
	fib->family = AF_INET;
	fib->ipv4_src = word_of(*source);
	fib->ipv4_dst = word_of(*destination);
}

static __always_inline addr_t socket_address(const struct bpf_sock_addr *context)
{
	return address_of(context->user_ip4);
}

static __always_inline void set_socket_address(struct bpf_sock_addr *context, addr_t address)
{
	context->user_ip4 = word_of(address);
}

/* Does a call at a hook for IPv6 name an IPv4 address (::ffff:a.b.c.d, RFC 4291 2.5.5.2)? */
static __always_inline bool is_mapped(const struct bpf_sock_addr *context)
{
	return !context->user_ip6[0] && !context->user_ip6[1] && context->user_ip6[2] == bpf_htonl(0xffff);
}

static __always_inline addr_t mapped_address(const struct bpf_sock_addr *context)
{
	return address_of(context->user_ip6[3]);
}

static __always_inline void set_mapped_address(struct bpf_sock_addr *context, addr_t address)
{
	context->user_ip6[3] = word_of(address);
}

#endif
