/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * All that is IPv6's own: the same interface as ipv4.h.
 *
 * Extension headers are walked, up to IPV6_EXTENSIONS of them and IPV6_CHAIN_MAX
 * bytes; what lies deeper, a routing header that has not reached its last
 * segment, ESP, and headers nobody knows make a packet none of ours.
 */
#ifndef SLUICE_IPV6_H
#define SLUICE_IPV6_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ipv6.h>
#include <bpf/bpf_endian.h>
#include "checksum.h"
#include "maps.h"
#include "placement.h"

#ifndef AF_INET6
#define AF_INET6 10
#endif

#define ETHERTYPE ETH_P_IPV6
#define IPV6_EXTENSIONS 8
#define IPV6_CHAIN_MAX 512
#define IPV6_FRAGMENT_OFFSET 0xfff8
#define IPV6_MORE_FRAGMENTS 0x0001
#define DEFAULT_HOP_LIMIT 64

/* <linux/icmpv6.h> drags in the C library. */
#define ICMP_UNREACHABLE 1
#define ICMP_PARAMETER_PROBLEM 4
#define ICMP_UNREACHABLE_PORT 4
#define ICMP_REDIRECT 137
#define ICMP_PROTOCOL IPPROTO_ICMPV6
#define REDIRECT_OPTIONS 4
#define REDIRECTED_HEADER 4

/* Newer than the oldest headers we build with (6.16 and stable kernels since). */
#define CSUM_IPV6 (1ULL << 7)

typedef struct ipv6hdr ip_header_t;

struct icmp_header {
	__u8 type;
	__u8 code;
	__sum16 checksum;
	__be32 rest;
};

static __always_inline bool is_loopback(const addr_t *address)
{
	const addr_t loopback = { .bytes = { [15] = 1 } };

	return SAME(address, &loopback);
}

static __always_inline addr_t source_of(const ip_header_t *ip)
{
	return *(const addr_t *)&ip->saddr;
}

static __always_inline addr_t destination_of(const ip_header_t *ip)
{
	return *(const addr_t *)&ip->daddr;
}

static __always_inline __u8 protocol_of(const ip_header_t *ip)
{
	return ip->nexthdr;
}

/* fe80::/10, of one link alone (RFC 4291, 2.5.6); ff00::/8, multicast. */
static __always_inline bool is_of_link(const struct in6_addr *address)
{
	const __u8 *bytes = address->s6_addr;

	return bytes[0] == 0xff || (bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80);
}

/* A header that the programs may act on: what belongs to one link is left to it. */
static __always_inline bool is_sound(const ip_header_t *ip)
{
	return ip->version == 6 && !is_of_link(&ip->saddr) && !is_of_link(&ip->daddr);
}

/* Bytes of the header; extensions are headers of their own. */
static __always_inline __u32 header_length(const ip_header_t *ip)
{
	return sizeof(*ip);
}

static __always_inline bool has_options(const ip_header_t *ip)
{
	(void)ip;
	return false;
}

/* Bytes behind `header` bytes of headers, the first of which is this one. */
static __always_inline __u32 payload_length(const ip_header_t *ip, __u32 header)
{
	return bpf_ntohs(ip->payload_len) + sizeof(*ip) - header;
}

static __always_inline bool is_extension(__u8 header)
{
	return header == IPPROTO_HOPOPTS || header == IPPROTO_ROUTING || header == IPPROTO_DSTOPTS ||
	       header == IPPROTO_AH || header == IPPROTO_FRAGMENT;
}

/* Goes over one extension header. False: what follows is not for us to find. */
static __always_inline bool pass_extension(struct __sk_buff *skb, struct placement *at)
{
	struct {
		__u8 next;
		__u8 length;	/* behind the first 8 bytes, in units of 8; AH's in units of 4 */
		__be16 offset;	/* the fragment header's */
		__be32 id;
	} header;
	__u8 kind = at->protocol;

	if (bpf_skb_load_bytes(skb, at->transport, &header, sizeof(header)))
		return false;
	at->protocol = header.next;
	if (kind == IPPROTO_FRAGMENT) {
		at->datagram = header.id;
		at->is_fragment = header.offset & bpf_htons(IPV6_FRAGMENT_OFFSET | IPV6_MORE_FRAGMENTS);
		at->is_later = header.offset & bpf_htons(IPV6_FRAGMENT_OFFSET);
		at->transport += sizeof(header);
	} else if (kind == IPPROTO_AH) {
		at->transport += (header.length + 2) * 4;
	} else if (kind == IPPROTO_ROUTING && bpf_ntohs(header.offset) & 0xff) {
		return false; /* segments left: this is not its destination (RFC 8200, 4.4) */
	} else {
		at->transport += (header.length + 1) * 8;
	}
	return true;
}

/* Walks the chain that begins at `at`. 1: it ends in ports, or in a fragment that has none. */
__noinline int walk_extensions(struct __sk_buff *skb, struct placement *at)
{
	if (!at)
		return 0;
	for (int i = 0; i < IPV6_EXTENSIONS; i++) {
		if (!is_extension(at->protocol))
			break;
		if (!pass_extension(skb, at) || at->transport > ETH_HLEN + sizeof(ip_header_t) + IPV6_CHAIN_MAX)
			return 0;
		/* The first fragment's chain may go on; what a later one says is next is in the first. */
		if (at->is_later)
			return has_ports(at->protocol) || is_extension(at->protocol);
	}
	return has_ports(at->protocol);
}

/* Where the transport header of a sound header at `offset` is. False: its protocol is none of ours. */
static __always_inline bool find_transport(struct __sk_buff *skb, const ip_header_t *ip, __u32 offset,
					   struct placement *at)
{
	__builtin_memset(at, 0, sizeof(*at));
	at->transport = offset + sizeof(*ip);
	at->protocol = ip->nexthdr;
	if (has_ports(at->protocol))
		return true;
	return is_extension(at->protocol) && walk_extensions(skb, at) &&
	       at->transport <= offset + sizeof(*ip) + IPV6_CHAIN_MAX;
}

static __always_inline __u64 address_change(const addr_t *from, const addr_t *to)
{
	const volatile __u32 *before = (const void *)from->bytes, *after = (const void *)to->bytes;
	__u64 sum = 0;

#pragma unroll
	for (__u32 i = 0; i < sizeof(*from) / 4; i++) {
		sum += sum_change(before[i], after[i]);
		/* One word after the other: all loads first would fill the stack. */
		asm volatile("" : "+r"(sum));
	}
	return sum;
}

/* What the transport checksum's pseudo-header changes by. */
static __always_inline __u32 addresses_change(const struct tuple *from, const struct tuple *to)
{
	return fold_to_32(address_change(&from->source, &to->source) +
			  address_change(&from->destination, &to->destination));
}

/*
 * Flags of bpf_l4_csum_replace() for a change of the addresses. Here it and what
 * it changes in the transport header even out, so the sum over the packet
 * (CHECKSUM_COMPLETE) stays as it was, which older kernels do not know: there
 * the sum is told of the addresses first.
 */
static __always_inline __u64 pseudo_header_flags(struct __sk_buff *skb, __u32 change)
{
	if (have_csum_ipv6)
		return BPF_F_PSEUDO_HDR | CSUM_IPV6;
	bpf_csum_update(skb, change);
	return BPF_F_PSEUDO_HDR;
}

/* Keeps the sum over the packet right where no transport checksum takes part: nothing evens out any change. */
static __always_inline void keep_sum(struct __sk_buff *skb, __u32 addresses, __u32 ports)
{
	bpf_csum_update(skb, fold_to_32((__u64)addresses + ports));
}

/* Writes both addresses. There is no checksum in the header. */
static __always_inline void write_addresses(ip_header_t *ip, const struct tuple *to, __u32 change)
{
	(void)change;
	*(addr_t *)&ip->saddr = to->source;
	*(addr_t *)&ip->daddr = to->destination;
}

/* The header of our own answer to a packet of `asked`. */
static __always_inline ip_header_t answer_header(const struct tuple *asked, __u8 protocol, __u16 payload)
{
	ip_header_t ip = {
		.version = 6,
		.payload_len = bpf_htons(payload),
		.nexthdr = protocol,
		.hop_limit = DEFAULT_HOP_LIMIT,
	};

	*(addr_t *)&ip.saddr = asked->destination;
	*(addr_t *)&ip.daddr = asked->source;
	return ip;
}

/* The header as an ICMP error quotes it: with the transport header right behind. */
static __always_inline ip_header_t quoted_header(const ip_header_t *ip, __u8 protocol)
{
	ip_header_t quoted = *ip;

	quoted.nexthdr = protocol;
	return quoted;
}

/*
 * Does a message of this type quote a packet to tell its sender something of it?
 * (RFC 4443, 3: types 1 to 4; RFC 4861, 4.5.)
 */
static __always_inline bool quotes_packet(__u8 type)
{
	return (type >= ICMP_UNREACHABLE && type <= ICMP_PARAMETER_PROBLEM) || type == ICMP_REDIRECT;
}

/* Where such a message at `icmp` quotes the packet, a redirect in an option (RFC 4861, 4.6.3); 0: nowhere. */
static __always_inline __u32 find_quote(struct __sk_buff *skb, __u32 icmp, __u8 type)
{
	__u32 at = icmp + sizeof(struct icmp_header);
	struct {
		__u8 kind;
		__u8 length; /* in units of 8 bytes */
	} option;

	if (type != ICMP_REDIRECT)
		return at;
	at += 2 * sizeof(addr_t);
	for (int i = 0; i < REDIRECT_OPTIONS; i++) {
		if (bpf_skb_load_bytes(skb, at, &option, sizeof(option)))
			return 0;
		if (option.kind == REDIRECTED_HEADER)
			return at + 8;
		at += option.length * 8;
	}
	return 0;
}

/* Reads the header at `offset`, and goes over its extensions as far as to ports; false when it is none. */
static __always_inline bool locate(struct __sk_buff *skb, __u32 offset, struct located *located)
{
	ip_header_t ip;

	if (bpf_skb_load_bytes(skb, offset, &ip, sizeof(ip)) || ip.version != 6)
		return false;
	__builtin_memset(&located->at, 0, sizeof(located->at));
	located->at.transport = offset + sizeof(ip);
	located->at.protocol = ip.nexthdr;
	located->source = source_of(&ip);
	located->destination = destination_of(&ip);
	located->end = offset + sizeof(ip) + bpf_ntohs(ip.payload_len);
	return !is_extension(ip.nexthdr) || walk_extensions(skb, &located->at);
}

/* Writes both addresses into the header at `offset`. */
static __always_inline bool store_addresses(struct __sk_buff *skb, __u32 offset, const struct tuple *from,
					    const struct tuple *to)
{
	addr_t addresses[2] = { to->source, to->destination };

	(void)from;
	return !bpf_skb_store_bytes(skb, offset + offsetof(ip_header_t, saddr), addresses, sizeof(addresses), 0);
}

/*
 * What new addresses change an ICMPv6 checksum by: in the header of the message
 * they are in its pseudo-header, in the one it quotes in what is summed up.
 */
static __always_inline __u32 icmp_addresses_change(const struct tuple *from, const struct tuple *to)
{
	return addresses_change(from, to);
}

/* The sum over the pseudo-header of `ip` (RFC 8200, 8.1), folded to 32 bits. */
static __always_inline __u32 pseudo_header_sum(const ip_header_t *ip, __u16 payload)
{
	struct {
		struct in6_addr source, destination;
		__be32 length;
		__be32 protocol;
	} pseudo = {
		.source = ip->saddr,
		.destination = ip->daddr,
		.length = bpf_htonl(payload),
		.protocol = bpf_htonl(ip->nexthdr),
	};

	return bpf_csum_diff(NULL, 0, (__be32 *)&pseudo, sizeof(pseudo), 0);
}

/* An ICMPv6 checksum starts from the pseudo-header (RFC 4443, 2.3). */
static __always_inline __u32 icmp_sum_start(const ip_header_t *ip, __u16 payload)
{
	return pseudo_header_sum(ip, payload);
}

static __always_inline void set_route_addresses(struct bpf_fib_lookup *fib, const addr_t *source,
						const addr_t *destination)
{
	fib->family = AF_INET6;
	*(addr_t *)fib->ipv6_src = *source;
	*(addr_t *)fib->ipv6_dst = *destination;
}

static __always_inline addr_t socket_address(const struct bpf_sock_addr *context)
{
	addr_t address;
	__u32 *words = (void *)address.bytes;

	words[0] = context->user_ip6[0];
	words[1] = context->user_ip6[1];
	words[2] = context->user_ip6[2];
	words[3] = context->user_ip6[3];
	return address;
}

static __always_inline void set_socket_address(struct bpf_sock_addr *context, addr_t address)
{
	const __u32 *words = (const void *)address.bytes;

	context->user_ip6[0] = words[0];
	context->user_ip6[1] = words[1];
	context->user_ip6[2] = words[2];
	context->user_ip6[3] = words[3];
}

#endif
