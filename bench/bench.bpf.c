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
#include <linux/tcp.h>
#include <linux/udp.h>
#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define NEXT -1
#define DROP 2 /* for a packet that the bench has not made: it would show in the result */
#define SOCKET_PASS 1

/* What a translation changes, as it was. Network order. */
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

static __always_inline int measure(struct __sk_buff *skb, __be32 source, __be32 destination)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + ETH_HLEN;
	struct tcphdr *tcp = (void *)(ip + 1);
	struct udphdr *udp = (void *)(ip + 1);

	if ((void *)(udp + 1) > end)
		return DROP;
	ip->saddr = source;
	ip->daddr = destination;
	ip->check = original.ip_check;
	udp->source = original.source_port;
	udp->dest = original.destination_port;
	if (ip->protocol == IPPROTO_UDP)
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

SEC("cgroup/connect4")
int empty_connect4(struct bpf_sock_addr *context)
{
	(void)context;
	return SOCKET_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
