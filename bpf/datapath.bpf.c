// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The datapath of one IP family. FAMILY is 4 or 6.
 *
 * A packet that concerns no service leaves `ingress` and `egress` after two
 * loads. They write nothing themselves: a program that writes into packets
 * makes the kernel unshare every cloned one first, and packets of local sockets
 * are clones. The others go on by tail call.
 */
#include "egress.h"
#include "sockets.h"
#include "sweep.h"

enum {
	PROGRAM_TRANSLATE_REQUEST,
	PROGRAM_TRANSLATE_REPLY,
};

int translate_requests(struct __sk_buff *skb);
int translate_replies(struct __sk_buff *skb);

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 2);
	__uint(key_size, sizeof(__u32));
	__array(values, int(struct __sk_buff *));
} programs SEC(".maps") = {
	.values = {
		[PROGRAM_TRANSLATE_REQUEST] = (void *)&translate_requests,
		[PROGRAM_TRANSLATE_REPLY] = (void *)&translate_replies,
	},
};

/* The header if it is of our family and in the linear part, which it nearly always is. */
static __always_inline struct iphdr *peek(struct __sk_buff *skb, bool *elsewhere)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + ETH_HLEN;

	*elsewhere = (void *)(ip + 1) > end;
	return *elsewhere ? NULL : ip;
}

SEC("tc")
int ingress(struct __sk_buff *skb)
{
	bool elsewhere;
	struct iphdr *ip;

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return VERDICT_NEXT;
	ip = peek(skb, &elsewhere);
	if (ip && !may_be_frontend(&ip->daddr) && !may_be_backend(&ip->daddr))
		return VERDICT_NEXT;
	bpf_tail_call_static(skb, &programs, PROGRAM_TRANSLATE_REQUEST);
	return VERDICT_NEXT;
}

SEC("tc")
int egress(struct __sk_buff *skb)
{
	bool elsewhere;
	struct iphdr *ip;

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return VERDICT_NEXT;
	if (skb->mark & mark_redirect) {
		/* Our own, sent back by ingress. */
		skb->mark &= ~mark_redirect;
		return VERDICT_NEXT;
	}
	ip = peek(skb, &elsewhere);
	if (ip && !may_be_backend(&ip->saddr) && !may_be_frontend(&ip->saddr))
		return VERDICT_NEXT;
	if (ip && ip->protocol == IPPROTO_ICMP)
		return is_redirect_of_flow(skb) ? VERDICT_DROP : VERDICT_NEXT;
	bpf_tail_call_static(skb, &programs, PROGRAM_TRANSLATE_REPLY);
	return VERDICT_NEXT;
}

SEC("tc")
int translate_requests(struct __sk_buff *skb)
{
	return translate_request(skb);
}

SEC("tc")
int translate_replies(struct __sk_buff *skb)
{
	return translate_reply(skb);
}

SEC("cgroup/connect4")
int connect4(struct bpf_sock_addr *context)
{
	return connect_socket(context);
}

SEC("cgroup/sendmsg4")
int sendmsg4(struct bpf_sock_addr *context)
{
	return send_datagram(context);
}

SEC("cgroup/recvmsg4")
int recvmsg4(struct bpf_sock_addr *context)
{
	return show_frontend(context);
}

SEC("cgroup/getpeername4")
int getpeername4(struct bpf_sock_addr *context)
{
	return show_frontend(context);
}

SEC("cgroup/sock_release")
int sock_release(struct bpf_sock *socket)
{
	struct socket_key key = { .cookie = bpf_get_socket_cookie(socket) };

	bpf_map_delete_elem(&sockets, &key);
	return SOCKET_PASS;
}

SEC("syscall")
int sweep(struct sweep *sweep)
{
	return sweep_flows(sweep);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
