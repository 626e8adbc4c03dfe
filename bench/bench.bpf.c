// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The measuring side of a test run. The kernel runs a program again and again on
 * one packet, which the datapath has rewritten by then. So each round first
 * makes the packet what it was, or the next one of a series, and then goes on to
 * the program under test by tail call. The baseline does the same and goes on to
 * `empty`.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define NEXT -1
#define DROP 2 /* for a packet that the bench has not made: it would show in the result */
#define SOCKET_PASS 1

/* What a translation changes, as it was. Network order. Of an IPv6 address the last word: the others are alike. */
struct {
	__be32 source;
	__be32 destination;
	__be16 source_port;
	__be16 destination_port;
	__sum16 ip_check;
	__sum16 check; /* TCP's or UDP's */
} original SEC(".data.original") = {};

/* Where a series is, and how the addresses of its packets follow from that. */
struct {
	__u32 at;
	__u32 stride; /* from one packet to the next: large, so that no prefetcher guesses */
	__u32 sources;
	__u32 destinations; /* as many different ones, from the original on */
	__u32 source_step;
	__u32 destination_step; /* between neighbours */
} series SEC(".data.series") = {};

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} under_test SEC(".maps");

/* The datapath's tables of flows, for what a bare look-up costs. The sizes are those of layout.h. */
#define FLOWS(name, key_bytes, value_bytes)      \
	struct {                                 \
		__uint(type, BPF_MAP_TYPE_HASH); \
		__uint(max_entries, 1 << 19);    \
		__uint(key_size, key_bytes);     \
		__uint(value_size, value_bytes); \
	} name SEC(".maps")

FLOWS(flows4, 16, 64);
FLOWS(flows6, 40, 112);

static __always_inline bool write_addresses(struct __sk_buff *skb, __be32 source, __be32 destination, __u32 *header,
					    __u8 *protocol)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *ipv4 = data + ETH_HLEN;
	struct ipv6hdr *ipv6 = data + ETH_HLEN;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if ((void *)(ipv4 + 1) > end)
			return false;
		ipv4->saddr = source;
		ipv4->daddr = destination;
		ipv4->check = original.ip_check;
		*protocol = ipv4->protocol;
		*header = sizeof(*ipv4);
		return true;
	}
	if ((void *)(ipv6 + 1) > end)
		return false;
	ipv6->saddr.in6_u.u6_addr32[3] = source;
	ipv6->daddr.in6_u.u6_addr32[3] = destination;
	*protocol = ipv6->nexthdr;
	*header = sizeof(*ipv6);
	return true;
}

static __always_inline int measure(struct __sk_buff *skb, __be32 source, __be32 destination)
{
	void *end = (void *)(long)skb->data_end;
	struct tcphdr *tcp;
	struct udphdr *udp;
	__u32 header;
	__u8 protocol;

	if (!write_addresses(skb, source, destination, &header, &protocol))
		return DROP;
	udp = (void *)(long)skb->data + ETH_HLEN + header;
	tcp = (void *)udp;
	if ((void *)(udp + 1) > end)
		return DROP;
	udp->source = original.source_port;
	udp->dest = original.destination_port;
	if (protocol == IPPROTO_UDP)
		udp->check = original.check;
	else if ((void *)(tcp + 1) > end)
		return DROP;
	else
		tcp->check = original.check;
	skb->mark = 0;
	bpf_tail_call_static(skb, &under_test, 0);
	return DROP;
}

static __always_inline __be32 neighbour(__be32 first, __u32 at, __u32 count, __u32 step)
{
	return bpf_htonl(bpf_ntohl(first) + at % count * step);
}

/* The same packet each time. */
SEC("tc")
int again(struct __sk_buff *skb)
{
	return measure(skb, original.source, original.destination);
}

/* Another packet each time. Its checksums are those of the first: nobody looks. */
SEC("tc")
int another(struct __sk_buff *skb)
{
	__u32 at = series.at;

	series.at = at + series.stride;
	if (!series.sources || !series.destinations)
		return DROP;
	return measure(skb, neighbour(original.source, at, series.sources, series.source_step),
		       neighbour(original.destination, at, series.destinations, series.destination_step));
}

SEC("tc")
int empty(struct __sk_buff *skb)
{
	(void)skb;
	return NEXT;
}

/* One look-up of the flow of a request, and a read of what it found. */
SEC("tc")
int look_up4(struct __sk_buff *skb)
{
	struct {
		__be32 source, destination;
		__be32 ports;
		__u8 protocol, direction;
		__u16 zero;
	} key = {};
	void *data = (void *)(long)skb->data;
	struct iphdr *ip = data + ETH_HLEN;
	__u32 *ports = (void *)(ip + 1), *value;

	if ((void *)(ports + 1) > (void *)(long)skb->data_end)
		return DROP;
	key.source = ip->saddr;
	key.destination = ip->daddr;
	key.ports = *ports;
	key.protocol = ip->protocol;
	value = bpf_map_lookup_elem(&flows4, &key);
	return value && *(volatile __u32 *)value == key.source ? NEXT : DROP;
}

SEC("tc")
int look_up6(struct __sk_buff *skb)
{
	struct {
		struct in6_addr source, destination;
		__be32 ports;
		__u8 protocol, direction;
		__u16 zero;
	} key = {};
	void *data = (void *)(long)skb->data;
	struct ipv6hdr *ip = data + ETH_HLEN;
	__u32 *ports = (void *)(ip + 1), *value;

	if ((void *)(ports + 1) > (void *)(long)skb->data_end)
		return DROP;
	key.source = ip->saddr;
	key.destination = ip->daddr;
	key.ports = *ports;
	key.protocol = ip->nexthdr;
	value = bpf_map_lookup_elem(&flows6, &key);
	return value && *(volatile __u32 *)value == key.source.in6_u.u6_addr32[0] ? NEXT : DROP;
}

SEC("cgroup/connect4")
int empty_connect4(struct bpf_sock_addr *context)
{
	(void)context;
	return SOCKET_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
