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

/*
 * The header, if it is of our family and in the linear part, which it nearly
 * always is. `elsewhere`: of our family, but to be pulled in first.
 */
static __always_inline ip_header_t *peek(struct __sk_buff *skb, bool *elsewhere)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	ip_header_t *ip = data + ETH_HLEN;

	*elsewhere = false;
	if (skb->protocol != bpf_htons(ETHERTYPE))
		return NULL;
	if ((void *)(ip + 1) <= end)
		return ip;
	*elsewhere = true;
	return NULL;
}

static __always_inline bool may_concern_request(addr_t destination)
{
	return may_be_frontend(&destination) || may_be_backend(&destination) || is_in_service_cidr(&destination);
}

static __always_inline bool may_concern_reply(addr_t source)
{
	return may_be_frontend(&source) || may_be_backend(&source);
}

SEC("tc")
int ingress(struct __sk_buff *skb)
{
	bool elsewhere;
	ip_header_t *ip = peek(skb, &elsewhere);

	if (elsewhere || (ip && may_concern_request(destination_of(ip))))
		bpf_tail_call_static(skb, &programs, PROGRAM_TRANSLATE_REQUEST);
	return VERDICT_NEXT;
}

SEC("tc")
int egress(struct __sk_buff *skb)
{
	__u32 mark = skb->mark;
	bool elsewhere;
	ip_header_t *ip;

	if (mark & mark_redirect) {
		/* Our own, sent back by ingress. */
		skb->mark = mark & ~mark_redirect;
		return VERDICT_NEXT;
	}
	ip = peek(skb, &elsewhere);
	if (ip && protocol_of(ip) == ICMP_PROTOCOL)
		elsewhere = may_quote(skb, ip);
	else if (ip)
		elsewhere = may_concern_reply(source_of(ip));
	if (!elsewhere)
		return VERDICT_NEXT;
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

SEC("cgroup/connect" FAMILY_TEXT)
int CONCAT(connect, FAMILY)(struct bpf_sock_addr *context)
{
	return connect_socket(context, SPELLING_NATIVE);
}

SEC("cgroup/sendmsg" FAMILY_TEXT)
int CONCAT(sendmsg, FAMILY)(struct bpf_sock_addr *context)
{
	return send_datagram(context);
}

SEC("cgroup/recvmsg" FAMILY_TEXT)
int CONCAT(recvmsg, FAMILY)(struct bpf_sock_addr *context)
{
	return show_frontend(context, SPELLING_NATIVE);
}

SEC("cgroup/getpeername" FAMILY_TEXT)
int CONCAT(getpeername, FAMILY)(struct bpf_sock_addr *context)
{
	return show_frontend(context, SPELLING_NATIVE);
}

#if FAMILY == 4
/* IPv6 sockets that speak IPv4. */

SEC("cgroup/connect6")
int connect_mapped(struct bpf_sock_addr *context)
{
	return is_mapped(context) ? connect_socket(context, SPELLING_MAPPED) : SOCKET_PASS;
}

SEC("cgroup/recvmsg6")
int recvmsg_mapped(struct bpf_sock_addr *context)
{
	return is_mapped(context) ? show_frontend(context, SPELLING_MAPPED) : SOCKET_PASS;
}

SEC("cgroup/getpeername6")
int getpeername_mapped(struct bpf_sock_addr *context)
{
	return is_mapped(context) ? show_frontend(context, SPELLING_MAPPED) : SOCKET_PASS;
}
#endif

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
