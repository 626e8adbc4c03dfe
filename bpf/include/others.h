/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Connections that are not ours: another proxy balanced them before us, the node's own sockets have them, or a CNI
 * masquerades them. A segment to one of our addresses that belongs to none of them, nor to a flow, has come too late.
 */
#ifndef SLUICE_OTHERS_H
#define SLUICE_OTHERS_H

#include "packet.h"

/* IPS_DST_NAT, of linux/netfilter/nf_conntrack_common.h. */
#define CONNECTION_DESTINATION_TRANSLATED (1 << 5)

#ifdef WITHOUT_KFUNCS

static __always_inline bool is_tracked(struct __sk_buff *skb, struct tuple *tuple, __u8 protocol, unsigned long status)
{
	(void)tuple, (void)protocol, (void)status;
	/* Used: else the compiler hands its callers' callees anything in its place, which the verifier refuses. */
	asm volatile("" : : "r"(skb));
	return false;
}

#else

/* Of the kernel's; the verifier refuses a kfunc whose structures are only declared. */
struct nf_conn {
	unsigned long status;
} __attribute__((preserve_access_index));

struct bpf_ct_opts {
	__s32 netns_id;
	__s32 error;
	__u8 protocol;
	__u8 direction;
	__u8 reserved[2];
};

/* Kernel 5.18; in the module nf_conntrack where that is one. */
extern struct nf_conn *bpf_skb_ct_lookup(struct __sk_buff *skb, struct bpf_sock_tuple *tuple, __u32 tuple_size,
					 struct bpf_ct_opts *options, __u32 options_size) __ksym __weak;
extern void bpf_ct_release(struct nf_conn *connection) __ksym __weak;

/*
 * Does netfilter know the packet's tuple, with all of these bits in its status? It holds what kube-proxy translated
 * under the tuple that the client sends.
 */
static __always_inline bool is_tracked(struct __sk_buff *skb, struct tuple *tuple, __u8 protocol, unsigned long status)
{
	struct bpf_ct_opts options = { .netns_id = BPF_F_CURRENT_NETNS, .protocol = protocol };
	struct nf_conn *connection;
	bool matches;

	if (!have_ct_lookup)
		return false;
	connection = bpf_skb_ct_lookup(skb, (void *)tuple, sizeof(*tuple), &options, sizeof(options));
	if (!connection)
		return false;
	matches = (connection->status & status) == status;
	bpf_ct_release(connection);
	return matches;
}

#endif

/* May connections of a proxy before us live still? */
static __always_inline bool is_handover(void)
{
	return (__s32)(state.handover_until - sweep_clock()) > 0;
}

/*
 * Is the datagram of a stream that a proxy before us gave a backend, which netfilter translates for as long as it lives?
 * The control plane takes its entry away when that backend goes.
 */
__noinline int is_others_stream(struct __sk_buff *skb, struct packet *packet)
{
	return packet && packet->protocol == IPPROTO_UDP && is_handover() &&
	       is_tracked(skb, &packet->tuple, IPPROTO_UDP, CONNECTION_DESTINATION_TRANSLATED);
}

/* Has a process of the node this connection? One that listens has not. */
static __always_inline bool has_socket(struct __sk_buff *skb, struct tuple *tuple)
{
	struct bpf_sock *socket = bpf_skc_lookup_tcp(skb, (void *)tuple, sizeof(*tuple), BPF_F_CURRENT_NETNS, 0);
	bool has;

	if (!socket)
		return false;
	has = socket->state != BPF_TCP_LISTEN;
	bpf_sk_release(socket);
	return has;
}

/*
 * What becomes of a segment to an address of ours that neither opens a connection nor belongs to a flow. The connection
 * of somebody else goes on; any other is over, and no new backend may get its middle: the client is told at once.
 * Where netfilter cannot be asked, as of SCTP, everything passes for as long as connections of a proxy before us may live.
 */
__noinline int through_others(struct __sk_buff *skb, struct packet *packet)
{
	_Static_assert(sizeof(struct tuple) == (FAMILY == 4 ? sizeof(((struct bpf_sock_tuple *)0)->ipv4) :
							     sizeof(((struct bpf_sock_tuple *)0)->ipv6)),
		       "laid out alike");
	bool can_ask;

	if (!packet)
		return VERDICT_NEXT;
	can_ask = packet->protocol == IPPROTO_TCP;
	if (can_ask && (is_tracked(skb, &packet->tuple, IPPROTO_TCP, 0) || has_socket(skb, &packet->tuple)))
		return VERDICT_NEXT;
	can_ask = can_ask && have_ct_lookup;
	if (!can_ask && is_handover())
		return VERDICT_NEXT;
	count_drop(DROP_REASON_NO_FLOW);
	return VERDICT_REJECT;
}

#endif
