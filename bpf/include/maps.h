/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The maps. Sizes are defaults; the control plane edits them before it loads
 * (--map-size NAME=N), and has larger ones take the place of those of services
 * that become full. A map that ends in the family exists once a family, the
 * others are shared through their pins.
 */
#ifndef SLUICE_MAPS_H
#define SLUICE_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "compare.h"
#include "event.h"
#include "filter.h"
#include "layout.h"
#include "marks.h"

#define CONCAT_(a, b) a##b
#define CONCAT(a, b) CONCAT_(a, b)
#define TEXT_(a) #a
#define TEXT(a) TEXT_(a)
#define FAMILY_TEXT TEXT(FAMILY)

/* In the code a map has its plain name, in the kernel the family's suffix. */
#define frontends CONCAT(frontends, FAMILY)
#define nodeports CONCAT(nodeports, FAMILY)
#define node_addresses CONCAT(node_addresses, FAMILY)
#define cluster_ips CONCAT(cluster_ips, FAMILY)
#define backend_slots CONCAT(backend_slots, FAMILY)
#define backends CONCAT(backends, FAMILY)
#define backend_loads CONCAT(backend_loads, FAMILY)
#define affinities CONCAT(affinity, FAMILY)
#define source_ranges CONCAT(source_ranges, FAMILY)
#define local_cidrs CONCAT(local_cidrs, FAMILY)
#define flows CONCAT(flows, FAMILY)
#define embryonic CONCAT(embryonic, FAMILY)
#define outbounds CONCAT(outbound, FAMILY)
#define fragments CONCAT(fragments, FAMILY)
#define sockets CONCAT(sockets, FAMILY)
#define socket_peers CONCAT(socket_peers, FAMILY)
#define programs CONCAT(programs, FAMILY)
#define scratch_area CONCAT(scratch, FAMILY)

#define MAP(name, map_type, entries, allocation, key_type, value_type) \
	struct {                                                       \
		__uint(type, map_type);                                \
		__uint(max_entries, entries);                          \
		__uint(map_flags, allocation);                         \
		__type(key, key_type);                                 \
		__type(value, value_type);                             \
	} name SEC(".maps")

#define PREALLOC 0
#define ON_DEMAND BPF_F_NO_PREALLOC

MAP(frontends, BPF_MAP_TYPE_HASH, 1 << 18, ON_DEMAND, struct frontend_key, struct frontend);
MAP(nodeports, BPF_MAP_TYPE_HASH, 1 << 16, ON_DEMAND, struct nodeport_key, struct frontend);
MAP(node_addresses, BPF_MAP_TYPE_HASH, 1 << 12, ON_DEMAND, struct address_key, struct node_address);
MAP(cluster_ips, BPF_MAP_TYPE_HASH, 1 << 17, ON_DEMAND, struct address_key, struct cluster_ip);
MAP(services, BPF_MAP_TYPE_ARRAY, 1 << 16, PREALLOC, __u32, struct service);
MAP(service_names, BPF_MAP_TYPE_HASH, 1 << 16, ON_DEMAND, __u32, struct service_name);
MAP(lists, BPF_MAP_TYPE_ARRAY, 1 << 17, PREALLOC, __u32, struct list);
MAP(cursors, BPF_MAP_TYPE_ARRAY, 1 << 17, PREALLOC, __u32, __u64);
MAP(backend_slots, BPF_MAP_TYPE_ARRAY, 1 << 21, PREALLOC, __u32, __u32);
MAP(backends, BPF_MAP_TYPE_ARRAY, 1 << 20, PREALLOC, __u32, struct backend);
MAP(backend_loads, BPF_MAP_TYPE_ARRAY, 1 << 20, PREALLOC, __u32, __s32);
MAP(affinities, BPF_MAP_TYPE_LRU_HASH, 1 << 17, PREALLOC, struct affinity_key, struct affinity);
MAP(source_ranges, BPF_MAP_TYPE_LPM_TRIE, 1 << 16, ON_DEMAND, struct source_range_key, __u32);
MAP(local_cidrs, BPF_MAP_TYPE_LPM_TRIE, 16, ON_DEMAND, struct local_cidr_key, __u32);

MAP(flows, BPF_MAP_TYPE_HASH, 1 << 19, PREALLOC, struct flow_key, struct flow);
MAP(embryonic, BPF_MAP_TYPE_LRU_HASH, 1 << 17, PREALLOC, struct flow_key, struct flow);
MAP(outbounds, BPF_MAP_TYPE_LRU_HASH, 1 << 15, PREALLOC, struct flow_key, struct outbound);
MAP(fragments, BPF_MAP_TYPE_LRU_HASH, 1 << 13, PREALLOC, struct fragment_key, struct fragment);
MAP(sockets, BPF_MAP_TYPE_HASH, 1 << 17, ON_DEMAND, struct socket_key, struct socket);
MAP(socket_peers, BPF_MAP_TYPE_LRU_HASH, 1 << 15, PREALLOC, struct socket_peer_key, struct socket_peer);

MAP(socket_netns, BPF_MAP_TYPE_HASH, 1 << 12, ON_DEMAND, __u64, struct socket_netns);

MAP(devices, BPF_MAP_TYPE_HASH, 1 << 14, ON_DEMAND, __u32, struct device);
MAP(service_stats, BPF_MAP_TYPE_PERCPU_ARRAY, 1 << 16, PREALLOC, __u32, struct service_stats);
MAP(drop_stats, BPF_MAP_TYPE_PERCPU_ARRAY, DROP_REASON_COUNT, PREALLOC, __u32, __u64);

/* Read by the daemon; what finds no room is counted all the same. Bytes, a power of two of whole pages. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 16);
} events SEC(".maps");

struct datapath_state state SEC(".data.state" FAMILY_TEXT) = {};

/* ---- set before the programs are loaded ---- */

const volatile __u64 host_netns_cookie = 0;
const volatile __u8 serve_all_netns = 0; /* sockets of namespaces that socket_netns does not name */
const volatile __u16 node_port_first = 30000;
const volatile __u16 node_port_last = 32767;
const volatile __u16 source_port_first = 61000;
const volatile __u16 source_port_last = 65535;
const volatile __u32 tcp_established_seconds = 86400;
const volatile __u32 tcp_half_closed_seconds = 3600;
const volatile __u32 tcp_closing_seconds = 30;
const volatile __u32 udp_unreplied_seconds = 30;
const volatile __u32 udp_replied_seconds = 180;
const volatile __u8 have_set_retval = 1;
const volatile __u8 have_ct_lookup = 0;
const volatile __u8 have_csum_ipv6 = 0;

/* Never read: brings the enumerations into the BTF for the generator. */
const volatile struct {
	enum layout layout;
	enum frontend_kind frontend_kind;
	enum frontend_flag frontend_flag;
	enum client_class client_class;
	enum list_kind list_kind;
	enum when_empty when_empty;
	enum masquerade masquerade;
	enum scheduler scheduler;
	enum service_flag service_flag;
	enum backend_state backend_state;
	enum backend_flag backend_flag;
	enum flow_direction flow_direction;
	enum flow_state flow_state;
	enum flow_flag flow_flag;
	enum device_class device_class;
	enum device_flag device_flag;
	enum node_address_flag node_address_flag;
	enum drop_reason drop_reason;
	struct sweep sweep;
	struct event event;
} enumerations = {};

#endif
