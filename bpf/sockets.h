/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sockets: a process that connects to a frontend is connected to a backend; its
 * packets need no translation. Only sockets of certain network namespaces are
 * touched, the node's own and those that `socket_netns` adds: several nodes may
 * share one kernel, and a mesh in a pod must see where its pod connects to.
 *
 * An IPv6 socket may speak IPv4 by mapped addresses. Its calls come to the hooks
 * for IPv6, except sendmsg's: the kernel hands that on to IPv4's
 * (udpv6_sendmsg() calls udp_sendmsg() for a mapped address).
 */
#ifndef SLUICE_SOCKETS_H
#define SLUICE_SOCKETS_H

#include "include/filter.h"
#include "include/packet.h"
#include "include/report.h"
#include "include/service.h"

#define ECONNREFUSED 111
#define ETIMEDOUT 110
#define PICK_TRIES 4

#define SOCKET_PASS 1
#define SOCKET_REFUSE 0

/* How the address of a call is written: a constant of each program. */
enum spelling {
	SPELLING_NATIVE,
	SPELLING_MAPPED,
};

#if FAMILY == 6
/* Mapped addresses are IPv4's. */
#define mapped_address socket_address
#define set_mapped_address set_socket_address
#endif

/* The peer of a socket call: the program's context holds the port in the low 16 bits. */
struct peer {
	addr_t address;
	__be16 port;
	__u8 protocol;
};

static __always_inline struct peer peer_of(const struct bpf_sock_addr *context, enum spelling spelling)
{
	struct peer peer = {
		.address = spelling == SPELLING_MAPPED ? mapped_address(context) : socket_address(context),
		.port = context->user_port,
		.protocol = context->protocol,
	};

	return peer;
}

static __always_inline void set_peer(struct bpf_sock_addr *context, enum spelling spelling, addr_t address,
				     __be16 port)
{
	if (spelling == SPELLING_MAPPED)
		set_mapped_address(context, address);
	else
		set_socket_address(context, address);
	context->user_port = port;
}

static __always_inline bool is_balanced_protocol(__u8 protocol)
{
	return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP;
}

/* Are the sockets of this network namespace served? The node's own are, at no cost. */
static __always_inline bool is_served(__u64 netns_cookie)
{
	struct socket_netns *netns;
	__u32 serves;

	if (netns_cookie == host_netns_cookie)
		return true;
	netns = bpf_map_lookup_elem(&socket_netns, &netns_cookie);
	if (!netns)
		return serve_all_netns;
	serves = netns->serves;
	barrier();
	return netns->cookie == netns_cookie ? serves : serve_all_netns;
}

/* Connection refused where the kernel lets a program say so (5.18), else EPERM. */
static __always_inline void set_error(__u32 reason)
{
	bool is_refused = reason == DROP_REASON_NO_ENDPOINT_REJECTED || reason == DROP_REASON_UNDEFINED_PORT;

	if (have_set_retval)
		bpf_set_retval(is_refused ? -ECONNREFUSED : -ETIMEDOUT);
}

/* A function of its own: its callers have no room left on the stack. */
static __noinline int refuse_socket(const struct peer *peer, __u32 service, __u32 reason)
{
	count_refused(service, reason);
	report_call(&peer->address, peer->port, peer->protocol, reason);
	set_error(reason);
	return 0;
}

/* What becomes of a socket's call. */
enum call {
	CALL_PASS,
	CALL_BALANCE,
	CALL_REFUSE,
};

/*
 * The daemon's own way to the API server: no external address, load-balancer
 * address or node port that somebody gives a Service takes it over. A ClusterIP
 * nobody can choose to be that of the API server.
 */
static __always_inline bool is_daemons_own(const struct frontend *frontend)
{
	return frontend->service && frontend->kind != FRONTEND_KIND_CLUSTER_IP &&
	       bpf_get_current_pid_tgid() >> 32 == state.daemon;
}

/*
 * Are a socket's packets translated, so that it keeps the address that it was given? Sockets of the kernel may have to,
 * and nothing tells them from others here: the service says so. What is sent from loopback could not leave the node.
 */
static __always_inline bool is_left_to_packets(const struct frontend *frontend, const struct peer *peer)
{
	struct address_key key = { .address = peer->address };
	__u32 id = frontend->service;
	struct service *service = bpf_map_lookup_elem(&services, &id);
	struct node_address *node;

	if (!service || !(service->flags & SERVICE_FLAG_KERNEL_SOCKETS))
		return false;
	node = bpf_map_lookup_elem(&node_addresses, &key);
	return !node || !(node->flags & NODE_ADDRESS_FLAG_LOOPBACK);
}

/*
 * CALL_BALANCE fills the frontend of the peer, if it is this socket's to use: a
 * loopback address of the node is not a pod's, and whether source ranges allow a
 * pod is for its packets to show. What no frontend takes ends here for the
 * node's own sockets, as a pod's packets do at its device.
 */
static __noinline enum call judge_call(struct bpf_sock_addr *context, struct frontend *frontend,
					    const struct peer *peer, __u64 *netns_cookie)
{
	__u32 reason;
	bool is_host;

	if (!is_balanced_protocol(peer->protocol) ||
	    (!may_be_frontend(&peer->address) && !is_in_service_cidr(&peer->address)))
		return CALL_PASS;
	*netns_cookie = bpf_get_netns_cookie(context);
	is_host = *netns_cookie == host_netns_cookie;
	if (!is_served(*netns_cookie))
		return CALL_PASS;
	if (find_frontend(frontend, &peer->address, peer->port, peer->protocol, is_host)) {
		if (is_left_to_packets(frontend, peer))
			return CALL_PASS;
		if (is_host)
			return is_daemons_own(frontend) ? CALL_PASS : CALL_BALANCE;
		return frontend->kind == FRONTEND_KIND_LOAD_BALANCER ? CALL_PASS : CALL_BALANCE;
	}
	reason = is_host ? reason_without_frontend(&peer->address) : DROP_REASON_NONE;
	if (reason == DROP_REASON_NONE)
		return CALL_PASS;
	count_drop(reason);
	report_call(&peer->address, peer->port, peer->protocol, reason);
	set_error(reason);
	return CALL_REFUSE;
}

static __always_inline void fill_socket(struct socket *socket, __u64 cookie, __u64 netns_cookie,
					const struct peer *peer, const struct backend *backend, __u32 id)
{
	__builtin_memset(socket, 0, sizeof(*socket));
	socket->cookie = cookie;
	socket->netns_cookie = netns_cookie;
	socket->frontend_address = peer->address;
	socket->frontend_port = peer->port;
	socket->backend_address = backend->address;
	socket->backend_port = backend->port;
	socket->backend = id;
	socket->generation = backend->generation;
	socket->service = backend->service;
	socket->protocol = peer->protocol;
}

static __always_inline struct socket *find_socket(__u64 cookie)
{
	struct socket_key key = { .cookie = cookie };
	struct socket *socket = bpf_map_lookup_elem(&sockets, &key);

	return socket && socket->cookie == cookie ? socket : NULL;
}

/* What a socket is connected to, or sent to last, from now on. */
static __noinline void keep_socket(struct socket *socket)
{
	struct socket_key key = { .cookie = socket->cookie };
	struct socket *before = find_socket(key.cookie);

	if (before)
		count_load(before->backend, before->generation, -1);
	if (!bpf_map_update_elem(&sockets, &key, socket, BPF_ANY))
		count_load(socket->backend, socket->generation, 1);
}

static __always_inline void forget_socket(__u64 cookie)
{
	struct socket_key key = { .cookie = cookie };
	struct socket *socket = find_socket(cookie);

	if (!socket)
		return;
	count_load(socket->backend, socket->generation, -1);
	bpf_map_delete_elem(&sockets, &key);
}

static __always_inline struct socket_peer_key peer_key(__u64 cookie, addr_t address, __be16 port, bool is_backend)
{
	struct socket_peer_key key = {
		.cookie = cookie,
		.address = address,
		.port = port,
		.is_backend = is_backend,
	};

	return key;
}

static __always_inline bool is_socket_peer(const struct socket_peer *peer, const struct socket_peer_key *key)
{
	barrier();
	return SAME(&peer->key, key);
}

static __always_inline bool is_frontend_of(const struct socket *socket, const struct peer *peer)
{
	return socket->frontend_port == peer->port &&
	       SAME(&socket->frontend_address, &peer->address);
}

static __always_inline bool is_backend_of(const struct socket *socket, const struct peer *peer)
{
	return socket->backend_port == peer->port &&
	       SAME(&socket->backend_address, &peer->address);
}

/* Did this socket reach the backend through another frontend? Then its answers could be either's. */
static __noinline bool is_backend_taken(__u64 cookie, const struct backend *backend, const struct peer *frontend)
{
	struct socket_peer_key key = peer_key(cookie, backend->address, backend->port, true);
	struct socket_peer *peer = bpf_map_lookup_elem(&socket_peers, &key);
	struct socket *socket = find_socket(cookie);
	struct peer backend_peer = { .address = backend->address, .port = backend->port };

	if (socket && is_backend_of(socket, &backend_peer) && !is_frontend_of(socket, frontend))
		return true;
	return peer && (peer->port != frontend->port ||
			!SAME(&peer->address, &frontend->address));
}

/* Picks for a socket. Returns the backend's id, 0 for none. */
static __noinline __u32 pick_for_socket(struct request *request, struct backend *backend, __u64 cookie,
					const struct peer *peer)
{
	__u32 id = 0, count = 0;

	if (request->affinity_seconds)
		id = affine_backend(request, backend);
	for (int i = 0; !id && i < PICK_TRIES; i++) {
		id = next_backend(request, backend, &count);
		if (id && i + 1 < PICK_TRIES && count > 1 && is_backend_taken(cookie, backend, peer))
			id = 0;
		else
			break;
	}
	if (!id)
		return 0;
	if (request->affinity_seconds)
		keep_affinity(request, id, backend->generation);
	count_connection(request->service, 0);
	return id;
}

/* Balances a socket's call to a frontend. Returns the backend's id; 0: refused, and said so. */
static __always_inline __u32 balance_socket(const struct frontend *frontend, const struct peer *peer, __u64 cookie,
					    __u64 netns_cookie, struct backend *backend)
{
	struct request request = { .netns_cookie = netns_cookie };
	__u32 id = 0;

	if (fill_request(&request, frontend, CLIENT_CLASS_INTERNAL)) {
		if (is_guarded(&request, frontend) && request.service_flags & SERVICE_FLAG_NODE_DENIED) {
			refuse_socket(peer, request.service, DROP_REASON_SOURCE_RANGE);
			return 0;
		}
		if (is_hashed(&request))
			request.hash = socket_hash(&request, cookie, &peer->address);
		id = pick_for_socket(&request, backend, cookie, peer);
	}
	if (!id)
		refuse_socket(peer, request.service, reason_when_empty(&request));
	return id;
}

/*
 * The daemon asks whether this program runs, by a frontend of no service: the
 * answer is the next port.
 */
static __always_inline int answer_self_test(struct bpf_sock_addr *context, const struct peer *peer)
{
	context->user_port = bpf_htons(bpf_ntohs(peer->port) + 1);
	return SOCKET_PASS;
}

static __always_inline int connect_socket(struct bpf_sock_addr *context, enum spelling spelling)
{
	struct peer peer = peer_of(context, spelling);
	struct backend backend = {};
	struct frontend frontend;
	struct socket socket;
	__u64 cookie;
	__u64 netns_cookie;
	enum call call;
	__u32 id;

	call = judge_call(context, &frontend, &peer, &netns_cookie);
	if (call != CALL_BALANCE)
		return call == CALL_PASS ? SOCKET_PASS : SOCKET_REFUSE;
	if (!frontend.service)
		return answer_self_test(context, &peer);
	cookie = bpf_get_socket_cookie(context);
	id = balance_socket(&frontend, &peer, cookie, netns_cookie, &backend);
	if (!id)
		return SOCKET_REFUSE;
	fill_socket(&socket, cookie, netns_cookie, &peer, &backend, id);
	socket.connected = 1;
	keep_socket(&socket);
	set_peer(context, spelling, backend.address, backend.port);
	return SOCKET_PASS;
}

/* Remembers both ways what a socket talks to beside its first peer. */
static __always_inline void note_socket_peer(__u64 cookie, const struct peer *frontend, const struct backend *backend,
					     __u32 id)
{
	struct socket_peer to_backend = {
		.key = peer_key(cookie, frontend->address, frontend->port, false),
		.address = backend->address,
		.port = backend->port,
		.backend = id,
		.generation = backend->generation,
	};
	struct socket_peer to_frontend = {
		.key = peer_key(cookie, backend->address, backend->port, true),
		.address = frontend->address,
		.port = frontend->port,
		.backend = id,
		.generation = backend->generation,
	};

	bpf_map_update_elem(&socket_peers, &to_backend.key, &to_backend, BPF_ANY);
	bpf_map_update_elem(&socket_peers, &to_frontend.key, &to_frontend, BPF_ANY);
}

/* Does a socket stay with this backend, as a UDP flow of packets would? */
static __always_inline bool stays_at(__u32 backend, __u32 generation, __u32 service)
{
	return backend_serves(backend, generation) || nobody_serves(service);
}

/*
 * A datagram to a named frontend: the backend that this socket already has for
 * it, while that serves, or nobody does. `has_other`: the socket's own entry is
 * taken, by another frontend or by what it is connected to.
 */
static __always_inline bool reuse_backend(struct bpf_sock_addr *context, __u64 cookie, const struct peer *peer,
					  __u32 service, bool *has_other)
{
	struct socket_peer_key key = peer_key(cookie, peer->address, peer->port, false);
	struct socket *socket = find_socket(cookie);
	struct socket_peer *known;
	bool is_same = socket && is_frontend_of(socket, peer);

	if (is_same && stays_at(socket->backend, socket->generation, service)) {
		set_peer(context, SPELLING_NATIVE, socket->backend_address, socket->backend_port);
		return true;
	}
	*has_other = socket && (!is_same || socket->connected);
	if (!*has_other)
		return false;
	known = bpf_map_lookup_elem(&socket_peers, &key);
	if (!known || !is_socket_peer(known, &key) || !stays_at(known->backend, known->generation, service))
		return false;
	set_peer(context, SPELLING_NATIVE, known->address, known->port);
	return true;
}

static __always_inline int send_datagram(struct bpf_sock_addr *context)
{
	struct peer peer = peer_of(context, SPELLING_NATIVE);
	struct backend backend = {};
	struct frontend frontend;
	struct socket socket;
	__u64 cookie;
	__u64 netns_cookie;
	bool has_other;
	enum call call;
	__u32 id;

	call = judge_call(context, &frontend, &peer, &netns_cookie);
	if (call != CALL_BALANCE || !frontend.service)
		return call == CALL_REFUSE ? SOCKET_REFUSE : SOCKET_PASS;
	cookie = bpf_get_socket_cookie(context);
	if (reuse_backend(context, cookie, &peer, frontend.service, &has_other))
		return SOCKET_PASS;
	id = balance_socket(&frontend, &peer, cookie, netns_cookie, &backend);
	if (!id)
		return SOCKET_REFUSE;
	if (has_other) {
		note_socket_peer(cookie, &peer, &backend, id);
	} else {
		fill_socket(&socket, cookie, netns_cookie, &peer, &backend, id);
		keep_socket(&socket);
	}
	set_peer(context, SPELLING_NATIVE, backend.address, backend.port);
	return SOCKET_PASS;
}

/* A datagram's sender, or a connected socket's peer, as the process knows it. */
static __always_inline int show_frontend(struct bpf_sock_addr *context, enum spelling spelling)
{
	struct peer peer = peer_of(context, spelling);
	struct socket_peer_key key;
	struct socket_peer *known;
	struct socket *socket;
	__u64 cookie;

	if (!may_be_backend(&peer.address))
		return SOCKET_PASS;
	cookie = bpf_get_socket_cookie(context);
	socket = find_socket(cookie);
	if (!socket)
		return SOCKET_PASS;
	if (is_backend_of(socket, &peer)) {
		set_peer(context, spelling, socket->frontend_address, socket->frontend_port);
		return SOCKET_PASS;
	}
	key = peer_key(cookie, peer.address, peer.port, true);
	known = bpf_map_lookup_elem(&socket_peers, &key);
	if (known && is_socket_peer(known, &key))
		set_peer(context, spelling, known->address, known->port);
	return SOCKET_PASS;
}

#endif
