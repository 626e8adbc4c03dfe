// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What is attached to a device: one program a direction, for both families. The
 * translation is in the datapath of a family, reached by tail call, so that a
 * slot is all that changes when it is exchanged. L3 devices (tun, WireGuard, IP in
 * IP), whose packets have no link-layer header, have programs of their own: in
 * either kind all offsets are constants.
 *
 * A packet that concerns no service leaves after two loads. The entry writes
 * nothing: a program that writes into packets makes the kernel unshare every
 * cloned one first, and packets of local sockets are clones.
 */
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <stddef.h>
#include <bpf/bpf_endian.h>
#include "include/filter.h"
#include "include/marks.h"
#include "include/programs.h"

/* Types of messages that quote a packet: RFC 792, RFC 4443, RFC 4861. */
#define ICMP_UNREACHABLE 3
#define ICMP_REDIRECT 5
#define ICMP_TIME_EXCEEDED 11
#define ICMP_PARAMETER_PROBLEM 12
#define ICMPV6_UNREACHABLE 1
#define ICMPV6_PARAMETER_PROBLEM 4
#define ICMPV6_REDIRECT 137

struct {
	PROGRAM_ARRAY;
	__uint(value_size, sizeof(__u32));
} programs4 SEC(".maps"), programs6 SEC(".maps");

/* May the address, of `words` words, be a service's or a backend's? */
static __always_inline bool may_concern(const void *address, __u32 words)
{
	__u32 hash = hash_words(address, words);

	return is_frontend_bit(hash) || is_backend_bit(hash);
}

/* An IPv4 header in the linear part, which it nearly always is; NULL: it is to be pulled in first. */
static __always_inline const struct iphdr *ipv4_header(const struct __sk_buff *skb, __u32 link)
{
	const struct iphdr *ip = (void *)(long)skb->data + link;

	return (void *)(ip + 1) <= (void *)(long)skb->data_end ? ip : NULL;
}

static __always_inline const struct ipv6hdr *ipv6_header(const struct __sk_buff *skb, __u32 link)
{
	const struct ipv6hdr *ip = (void *)(long)skb->data + link;

	return (void *)(ip + 1) <= (void *)(long)skb->data_end ? ip : NULL;
}

/*
 * May the message be an error that quotes a packet? Such come from routers too,
 * whose addresses the filter does not know.
 */
static __always_inline bool may_quote4(const struct __sk_buff *skb, const struct iphdr *ip)
{
	const __u8 *type = (void *)ip + ip->ihl * 4;

	return (void *)(type + 1) > (void *)(long)skb->data_end || *type == ICMP_UNREACHABLE ||
	       *type == ICMP_REDIRECT || *type == ICMP_TIME_EXCEEDED || *type == ICMP_PARAMETER_PROBLEM;
}

static __always_inline bool may_quote6(const struct __sk_buff *skb, const struct ipv6hdr *ip)
{
	const __u8 *type = (void *)(ip + 1);

	return (void *)(type + 1) > (void *)(long)skb->data_end ||
	       (*type >= ICMPV6_UNREACHABLE && *type <= ICMPV6_PARAMETER_PROBLEM) || *type == ICMPV6_REDIRECT;
}

static __always_inline bool may_be_request4(const struct iphdr *ip)
{
	return may_concern(&ip->daddr, 1) || is_in_ranges(&filter.service_cidrs4, &ip->daddr, 1);
}

static __always_inline bool may_be_request6(const struct ipv6hdr *ip)
{
	return may_concern(&ip->daddr, 4) || is_in_ranges(&filter.service_cidrs6, (const void *)&ip->daddr, 4);
}

static __always_inline bool may_be_reply4(const struct __sk_buff *skb, const struct iphdr *ip)
{
	return ip->protocol == IPPROTO_ICMP ? may_quote4(skb, ip) : may_concern(&ip->saddr, 1);
}

static __always_inline bool may_be_reply6(const struct __sk_buff *skb, const struct ipv6hdr *ip)
{
	return ip->nexthdr == IPPROTO_ICMPV6 ? may_quote6(skb, ip) : may_concern(&ip->saddr, 4);
}

/*
 * A frame of a VLAN, on its trunk: the VLAN's own device has the programs too, and knows who is there. Kernels before
 * 6.2 leave the number of a tag that is gone; number 0 is a priority without a VLAN (IEEE 802.1Q, 9.6).
 */
static __always_inline bool is_of_vlan(const struct __sk_buff *skb)
{
	return skb->vlan_present && skb->vlan_tci & 0x0fff;
}

/* `link`: bytes of the link-layer header. `program`: enum program, where a packet goes on to. */
static __always_inline int look_at_request(struct __sk_buff *skb, __u32 link, const __u32 program)
{
	const struct ipv6hdr *ipv6;
	const struct iphdr *ipv4;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		ipv4 = ipv4_header(skb, link);
		if ((!ipv4 || may_be_request4(ipv4)) && !is_of_vlan(skb))
			bpf_tail_call_static(skb, &programs4, program);
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		ipv6 = ipv6_header(skb, link);
		if ((!ipv6 || may_be_request6(ipv6)) && !is_of_vlan(skb))
			bpf_tail_call_static(skb, &programs6, program);
	}
	return VERDICT_NEXT;
}

static __always_inline int look_at_reply(struct __sk_buff *skb, __u32 link, const __u32 program)
{
	const struct ipv6hdr *ipv6;
	const struct iphdr *ipv4;
	__u32 mark = skb->mark;

	if (mark & mark_redirect) {
		/* Our own, sent back by ingress. */
		skb->mark = mark & ~mark_redirect;
		return VERDICT_NEXT;
	}
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		ipv4 = ipv4_header(skb, link);
		if ((!ipv4 || may_be_reply4(skb, ipv4)) && !is_of_vlan(skb))
			bpf_tail_call_static(skb, &programs4, program);
	} else if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		ipv6 = ipv6_header(skb, link);
		if ((!ipv6 || may_be_reply6(skb, ipv6)) && !is_of_vlan(skb))
			bpf_tail_call_static(skb, &programs6, program);
	}
	return VERDICT_NEXT;
}

SEC("tc")
int ingress(struct __sk_buff *skb)
{
	return look_at_request(skb, ETH_HLEN, PROGRAM_TRANSLATE_REQUEST);
}

SEC("tc")
int egress(struct __sk_buff *skb)
{
	return look_at_reply(skb, ETH_HLEN, PROGRAM_TRANSLATE_REPLY);
}

SEC("tc")
int ingress_l3(struct __sk_buff *skb)
{
	return look_at_request(skb, 0, PROGRAM_TRANSLATE_REQUEST_L3);
}

SEC("tc")
int egress_l3(struct __sk_buff *skb)
{
	return look_at_reply(skb, 0, PROGRAM_TRANSLATE_REPLY_L3);
}

/* In the place of another while a device gets its programs by another kind of hook. */
SEC("tc")
int pass(struct __sk_buff *skb __attribute__((unused)))
{
	return VERDICT_NEXT;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
