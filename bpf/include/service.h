/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a destination to a frontend, from a frontend to a backend. */
#ifndef SLUICE_SERVICE_H
#define SLUICE_SERVICE_H

#include <stdbool.h>
#include <bpf/bpf_endian.h>
#include "filter.h"
#include "scratch.h"
#include "stats.h"

#define LOADS_SCANNED 64

/* Copies `found` out, then makes sure that it still was what was looked for. */
static __always_inline bool copy_frontend(struct frontend *frontend, const struct frontend *found,
					  const struct frontend_key *key)
{
	if (!found)
		return false;
	*frontend = *(const volatile struct frontend *)found;
	barrier();
	return SAME(&found->key, key);
}

/*
 * The frontend at an address: an exact one first, a node port where the address
 * is the node's. `sockets`: loopback addresses count as well.
 */
static __always_inline bool find_frontend(struct frontend *frontend, const addr_t *address, __be16 port,
					  __u8 protocol, bool sockets_too)
{
	struct frontend_key key = { .address = *address, .port = port, .protocol = protocol };
	struct address_key node_key = { .address = *address };
	struct nodeport_key node_port = { .port = port, .protocol = protocol };
	struct node_address *node;

	if (copy_frontend(frontend, bpf_map_lookup_elem(&frontends, &key), &key))
		return true;
	node = bpf_map_lookup_elem(&node_addresses, &node_key);
	if (!node || !(node->flags & NODE_ADDRESS_FLAG_NODE_PORT))
		return false;
	if (node->flags & NODE_ADDRESS_FLAG_LOOPBACK && !sockets_too)
		return false;
	__builtin_memset(&key.address, 0, sizeof(key.address));
	return copy_frontend(frontend, bpf_map_lookup_elem(&nodeports, &node_port), &key);
}

static __always_inline bool is_cluster_ip(const addr_t *address)
{
	struct address_key key = { .address = *address };

	return bpf_map_lookup_elem(&cluster_ips, &key);
}

static __always_inline bool is_node_address(const addr_t *address)
{
	struct address_key key = { .address = *address };

	return bpf_map_lookup_elem(&node_addresses, &key);
}

/*
 * Why a request is ended that no frontend takes: enum drop_reason; none where it
 * may be somebody else's. An address of the node is its owner's, even in the
 * range of the Services, and a backend's is the backend's.
 */
static __always_inline __u32 reason_without_frontend(const addr_t *address)
{
	if (is_cluster_ip(address))
		return DROP_REASON_UNDEFINED_PORT;
	if (!is_in_service_cidr(address) || may_be_backend(address) || is_node_address(address))
		return DROP_REASON_NONE;
	return DROP_REASON_UNALLOCATED;
}

/* Copies a backend out if it is still the one of `generation`, or any: 0. */
static __always_inline bool get_backend(struct backend *backend, __u32 id, __u32 generation)
{
	struct backend *found = bpf_map_lookup_elem(&backends, &id);

	if (!found)
		return false;
	*backend = *(const volatile struct backend *)found;
	barrier();
	return !generation || found->generation == generation;
}

/* May what was balanced onto it go on? Draining backends keep what they have. */
static __always_inline bool backend_serves(__u32 id, __u32 generation)
{
	struct backend *backend = bpf_map_lookup_elem(&backends, &id);

	return backend && backend->generation == generation &&
	       (backend->state == BACKEND_STATE_ACTIVE || backend->state == BACKEND_STATE_DRAINING);
}

/*
 * Has a service nobody at all? Then a UDP flow whose backend is gone has nowhere to move, and goes on as it is:
 * kube-proxy cleans no conntrack entries of a service that nobody serves either.
 */
static __always_inline bool nobody_serves(__u32 service)
{
	for (__u32 kind = 0; kind < LIST_KIND_COUNT; kind++) {
		__u32 list = service * LIST_KIND_COUNT + kind;
		__u64 *word = bpf_map_lookup_elem(&lists, &list);

		if (word && *(volatile __u64 *)word >> 32)
			return false;
	}
	return true;
}

/* The rules of the frontend's kind for this class of clients. */
static __always_inline bool fill_request(struct request *request, const struct frontend *frontend,
					 __u32 client_class)
{
	__u32 rule = frontend->kind * CLIENT_CLASS_COUNT + client_class;
	__u32 id = frontend->service;
	struct service *service = bpf_map_lookup_elem(&services, &id);

	/* Check what is used: clang 19 would bound a part and join it by OR, of which verifiers before 6.10 know nothing. */
	asm volatile("" : "+r"(rule));
	if (!service || rule >= sizeof(service->list))
		return false;
	request->service = id;
	request->list_kind = service->list[rule];
	request->when_empty = service->when_empty[rule];
	request->masquerade = service->masquerade[rule];
	request->scheduler = service->scheduler;
	request->list = id * LIST_KIND_COUNT + request->list_kind;
	request->affinity_seconds = service->affinity_seconds;
	request->service_flags = service->flags;
	return true;
}

/* loadBalancerSourceRanges guard load-balancer addresses alone, but against every client. */
static __always_inline bool is_guarded(const struct request *request, const struct frontend *frontend)
{
	return frontend->kind == FRONTEND_KIND_LOAD_BALANCER &&
	       request->service_flags & SERVICE_FLAG_SOURCE_RANGES;
}

static __always_inline bool is_in_source_ranges(const struct request *request)
{
	struct source_range_key key = {
		.prefix_length = 8 * (sizeof(key.service) + sizeof(key.address)),
		.service = bpf_htonl(request->service),
		.address = request->client,
	};

	return bpf_map_lookup_elem(&source_ranges, &key);
}

/* Why a request whose list is empty ends: enum drop_reason. */
static __always_inline __u32 reason_when_empty(const struct request *request)
{
	return request->when_empty == WHEN_EMPTY_DROP ? DROP_REASON_NO_ENDPOINT_DROPPED :
							DROP_REASON_NO_ENDPOINT_REJECTED;
}

static __always_inline struct affinity_key affinity_key(const struct request *request)
{
	struct affinity_key key = {
		.netns_cookie = request->netns_cookie,
		.address = request->client,
		.service = request->service,
	};

	return key;
}

/* The backend this client stays with, if it is still in the list in use. */
static __always_inline __u32 affine_backend(const struct request *request, struct backend *backend)
{
	struct affinity_key key = affinity_key(request);
	struct affinity *found = bpf_map_lookup_elem(&affinities, &key);
	__u32 id, generation, last_use;

	if (!found)
		return 0;
	id = found->backend;
	generation = found->generation;
	last_use = found->last_use;
	barrier();
	if (!SAME(&found->key, &key))
		return 0;
	if (clock_seconds() - last_use > request->affinity_seconds)
		return 0;
	if (!get_backend(backend, id, generation) || backend->state != BACKEND_STATE_ACTIVE ||
	    backend->service != request->service || !(backend->flags & (1 << request->list_kind)))
		return 0;
	return id;
}

/* Every new connection renews the stay; packets of a connection do not. */
static __always_inline void keep_affinity(const struct request *request, __u32 id, __u32 generation)
{
	struct affinity_key key = affinity_key(request);
	struct affinity affinity = {
		.key = key,
		.backend = id,
		.generation = generation,
		.last_use = clock_seconds(),
	};

	bpf_map_update_elem(&affinities, &key, &affinity, BPF_ANY);
}

/*
 * The live connections of a backend: confirmed flows that no side closes, and sockets. Counted for one use of the id
 * alone. Two packets that end a flow at once may count it twice; the control plane compares the counts with the tables
 * and mends them.
 */
static __always_inline void count_load(__u32 id, __u32 generation, __s32 change)
{
	struct backend *backend = bpf_map_lookup_elem(&backends, &id);
	__s32 *load;

	if (!id || !backend || backend->generation != generation)
		return;
	load = bpf_map_lookup_elem(&backend_loads, &id);
	if (load)
		__sync_fetch_and_add(load, change);
}

/* A step of a hash. Each bit of it depends on all bits of the words so far: who takes it modulo a small number sees the last. */
static __always_inline __u32 mix(__u32 hash, __u32 word)
{
	hash = (hash ^ word) * 0x85EBCA6Bu;
	hash = (hash ^ hash >> 16) * 0xC2B2AE35u;
	return hash ^ hash >> 15;
}

static __always_inline __u32 mix_address(__u32 hash, const addr_t *address)
{
	const __u32 *words = (const void *)address->bytes;

	for (__u32 i = 0; i < sizeof(*address) / 4; i++)
		hash = mix(hash, words[i]);
	return hash;
}

static __always_inline __u32 mix_cookie(__u32 hash, __u64 cookie)
{
	return mix(mix(hash, cookie), cookie >> 32);
}

/* Does the scheduler give one client the same backend each time? */
static __always_inline bool is_hashed(const struct request *request)
{
	return request->scheduler == SCHEDULER_MAGLEV || request->scheduler == SCHEDULER_SOURCE_HASH ||
	       request->scheduler == SCHEDULER_DESTINATION_HASH;
}

/*
 * What a packet is told by: its source address (source-hash, as ip_vs_sh.c without the flag sh-port), that and the
 * source port (Maglev, as ip_vs_mh.c with the flag mh-port, which kube-proxy sets), or its destination address
 * (ip_vs_dh.c). Nothing of the node goes in: every node comes to the same.
 */
static __always_inline __u32 packet_hash(const struct request *request, const struct tuple *tuple)
{
	__u32 hash;

	if (request->scheduler == SCHEDULER_DESTINATION_HASH)
		return mix_address(0, &tuple->destination);
	hash = mix_address(0, &tuple->source);
	return request->scheduler == SCHEDULER_MAGLEV ? mix(hash, tuple->source_port) : hash;
}

/*
 * The same of a socket, which has neither source address nor port when it connects: its network namespace stands for
 * the one, as with affinity, and the socket itself for the other.
 */
static __always_inline __u32 socket_hash(const struct request *request, __u64 cookie, const addr_t *destination)
{
	__u32 hash;

	if (request->scheduler == SCHEDULER_DESTINATION_HASH)
		return mix_address(0, destination);
	hash = mix_cookie(0, request->netns_cookie);
	return request->scheduler == SCHEDULER_MAGLEV ? mix_cookie(hash, cookie) : hash;
}

/* Does the scheduler go by how many connections the backends have? */
static __always_inline bool is_by_load(const struct request *request)
{
	switch (request->scheduler) {
	case SCHEDULER_LEAST_CONNECTION:
	case SCHEDULER_WEIGHTED_LEAST_CONNECTION:
	case SCHEDULER_SHORTEST_EXPECTED_DELAY:
	case SCHEDULER_NEVER_QUEUE:
		return true;
	}
	return false;
}

/* Connections that a backend has; with those schedulers that look ahead, the one in question too. */
static __always_inline __u64 load_of(__u32 scheduler, __s32 connections)
{
	__u64 load = connections > 0 ? connections : 0; /* below 0 for a moment: see count_load() */

	return scheduler == SCHEDULER_SHORTEST_EXPECTED_DELAY || scheduler == SCHEDULER_NEVER_QUEUE ? load + 1 : load;
}

/*
 * The slot of the backend that has least to do: of up to LOADS_SCANNED slots from `turn` on, so that a list of any
 * length costs the same. Where several have as little, turn goes round. As ip_vs_lc.c, _wlc.c and _sed.c, which
 * compare the load divided by the weight; and _nq.c, whose idle ones come before all. Returns the slot's place in the
 * list. (Global: the verifier walks it once.)
 */
__noinline int least_loaded(__u32 scheduler, __u32 first, __u32 count, __u32 turn)
{
	__u64 load, least = 0, weight, weight_of_least = 0;
	struct backend *backend;
	__u32 best = turn, slot, *id;
	__s32 *connections;

	for (__u32 i = 0; i < LOADS_SCANNED && i < count; i++) {
		slot = first + turn;
		id = bpf_map_lookup_elem(&backend_slots, &slot);
		if (!id)
			return best;
		backend = bpf_map_lookup_elem(&backends, id);
		connections = bpf_map_lookup_elem(&backend_loads, id);
		if (!backend || !connections)
			return best;
		load = load_of(scheduler, *connections);
		if (scheduler == SCHEDULER_NEVER_QUEUE && load == 1)
			return turn;
		weight = scheduler == SCHEDULER_LEAST_CONNECTION ? 1 : backend->weight;
		if (!weight_of_least || load * weight_of_least < least * weight) {
			best = turn;
			least = load;
			weight_of_least = weight;
		}
		turn = turn + 1 < count ? turn + 1 : 0;
	}
	return best;
}

/*
 * Where the next choice by load begins to look. In a long list behind what the one before has looked at, so that all
 * slots have their turn soon; and round by round a slot further on, so that of those who have as little not always the
 * same are met first.
 */
static __always_inline __u32 first_looked_at(__u64 choice, __u32 count)
{
	__u64 looked_at = choice * LOADS_SCANNED;

	return (count > LOADS_SCANNED ? looked_at + looked_at / count : choice) % count;
}

/* Which of `count` slots is next; `count` when there is no telling. */
static __always_inline __u32 next_turn(struct request *request, __u32 first, __u32 count)
{
	__u32 list = request->list;
	__u64 *cursor, turn;

	if (is_hashed(request))
		return request->hash++ % count; /* who comes again for the same gets another */
	if (request->scheduler == SCHEDULER_RANDOM)
		return bpf_get_prandom_u32() % count;
	cursor = bpf_map_lookup_elem(&cursors, &list);
	if (!cursor)
		return count;
	turn = __sync_fetch_and_add(cursor, 1);
	if (is_by_load(request))
		return least_loaded(request->scheduler, first, count, first_looked_at(turn, count));
	return turn % count;
}

/*
 * The next backend of the list by the scheduler. Returns its id; 0 when the
 * list is empty. `count` gets the number of its slots.
 */
static __always_inline __u32 next_backend(struct request *request, struct backend *backend, __u32 *count)
{
	__u32 list = request->list, slot, turn, *id;
	__u64 *word = bpf_map_lookup_elem(&lists, &list);
	__u64 first_and_count;

	*count = 0;
	if (!word)
		return 0;
	first_and_count = *(volatile __u64 *)word;
	*count = first_and_count >> 32;
	if (!*count)
		return 0;
	turn = next_turn(request, first_and_count, *count);
	if (turn >= *count)
		return 0;
	slot = (__u32)first_and_count + turn;
	id = bpf_map_lookup_elem(&backend_slots, &slot);
	if (!id || !get_backend(backend, *id, 0))
		return 0;
	return *id;
}

#endif
