// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The datapath of one IP family: FAMILY is 4 or 6. Packets come here from the
 * entry (entry.bpf.c), by tail call.
 */
#include "egress.h"
#include "include/programs.h"
#include "sockets.h"
#include "sweep.h"

int translate_requests(struct __sk_buff *skb);
int translate_replies(struct __sk_buff *skb);
int translate_requests_l3(struct __sk_buff *skb);
int translate_replies_l3(struct __sk_buff *skb);

struct {
	PROGRAM_ARRAY;
	__array(values, int(struct __sk_buff *));
} programs SEC(".maps") = {
	.values = {
		[PROGRAM_TRANSLATE_REQUEST] = (void *)&translate_requests,
		[PROGRAM_TRANSLATE_REPLY] = (void *)&translate_replies,
		[PROGRAM_TRANSLATE_REQUEST_L3] = (void *)&translate_requests_l3,
		[PROGRAM_TRANSLATE_REPLY_L3] = (void *)&translate_replies_l3,
	},
};

SEC("tc")
int translate_requests(struct __sk_buff *skb)
{
	return translate_request(skb, ETH_HLEN);
}

SEC("tc")
int translate_replies(struct __sk_buff *skb)
{
	return translate_reply(skb, ETH_HLEN);
}

SEC("tc")
int translate_requests_l3(struct __sk_buff *skb)
{
	return translate_request(skb, 0);
}

SEC("tc")
int translate_replies_l3(struct __sk_buff *skb)
{
	return translate_reply(skb, 0);
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
#if FAMILY == 6
	/* A mapped address makes an IPv6 socket one of IPv4's; the other way round there is nothing. */
	if (socket->family != AF_INET6)
		return SOCKET_PASS;
#endif
	forget_socket(bpf_get_socket_cookie(socket));
	return SOCKET_PASS;
}

SEC("syscall")
int sweep(struct sweep *sweep)
{
	return sweep_flows(sweep);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
