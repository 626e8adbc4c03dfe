/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The layout of every map: keys, values, and the enumerations in them. This file is the one source of it; the codecs of
 * the control plane are generated from the BTF of the compiled object (npm run gen).
 *
 * Rules that hold for all of it:
 *
 * - Addresses and ports (addr_t, __be16) are in network byte order, everything
 *   else in the byte order of the host.
 * - No struct has padding: a hole in a key is a look-up that misses one day.
 * - Nothing wider than 8 aligned bytes is ever consistent under a concurrent
 *   update, and hash elements are recycled at once. So the value of a hash
 *   carries a copy of its key as the first member; a reader copies the value
 *   and then compares the key. What must switch at once is one word in `lists`.
 * - Id 0 of services and backends means "none" and is never given out. A frontend
 *   of service 0 is the daemon's own question whether the socket programs run.
 *
 * FAMILY is 4 or 6. Structs that hold an addr_t differ between the two and get
 * the suffix in the generated code.
 */
#ifndef SLUICE_LAYOUT_H
#define SLUICE_LAYOUT_H

#include <linux/types.h>

#ifndef FAMILY
#error "FAMILY must be 4 or 6"
#endif

/* An address, byte by byte as it is written: a dump of a map shows [10, 96, 0, 1]. */
typedef struct {
#if FAMILY == 4
	__u8 bytes[4];
#else
	__u8 bytes[16];
#endif
} __attribute__((aligned(4))) addr_t;

enum layout {
	LAYOUT_VERSION = 5, /* raised whenever a struct changes; in the path of the pins */
	LAYOUT_FILTER_BITS = 22,
	LAYOUT_SERVICE_CIDRS = 8, /* of a family: a cluster has one, seldom two */
};

/* ---- enumerations ---- */

enum frontend_kind {
	FRONTEND_KIND_CLUSTER_IP,
	FRONTEND_KIND_NODE_PORT,
	FRONTEND_KIND_LOAD_BALANCER,
	FRONTEND_KIND_EXTERNAL_IP,
	FRONTEND_KIND_COUNT,
};

/* Bits of struct frontend.flags. */
enum frontend_flag {
	FRONTEND_FLAG_ON_NODE = 1, /* the address is one of this node's */
};

/* What a client is, as its device or its address tells. */
enum client_class {
	CLIENT_CLASS_INTERNAL, /* a pod, or a process of this node */
	CLIENT_CLASS_EXTERNAL,
	CLIENT_CLASS_COUNT,
};

/* The two backend lists of a service; list id = 2 * service id + list kind. */
enum list_kind {
	LIST_KIND_CLUSTER,
	LIST_KIND_LOCAL,
	LIST_KIND_COUNT,
};

enum when_empty {
	WHEN_EMPTY_REJECT,
	WHEN_EMPTY_DROP,
};

/* Does a backend see the node's address instead of the client's? */
enum masquerade {
	MASQUERADE_NEVER,
	MASQUERADE_IF_NEEDED, /* where the answers would not come back through this node */
	MASQUERADE_ALWAYS,
};

/*
 * Those of IPVS, and what they go by, are of the kernel's net/netfilter/ipvs/ip_vs_rr.c, _wrr.c, _sh.c, _dh.c,
 * _mh.c, _lc.c, _wlc.c, _sed.c and _nq.c; which backend is in which slot is the control plane's to say.
 */
enum scheduler {
	SCHEDULER_ROUND_ROBIN,
	SCHEDULER_RANDOM,
	SCHEDULER_MAGLEV,
	SCHEDULER_WEIGHTED_ROUND_ROBIN,
	SCHEDULER_LEAST_CONNECTION,
	SCHEDULER_WEIGHTED_LEAST_CONNECTION,
	SCHEDULER_SOURCE_HASH,
	SCHEDULER_DESTINATION_HASH,
	SCHEDULER_SHORTEST_EXPECTED_DELAY,
	SCHEDULER_NEVER_QUEUE,
};

/* Bits of struct service.flags. */
enum service_flag {
	SERVICE_FLAG_SOURCE_RANGES = 1, /* source_ranges has the clients of its load-balancer addresses */
	SERVICE_FLAG_NODE_DENIED = 2,	/* ... and this node is not among them: for its sockets */
	SERVICE_FLAG_KERNEL_SOCKETS = 4, /* sockets keep its addresses; the node's packets are translated by netfilter */
};

enum backend_state {
	BACKEND_STATE_FREE,
	BACKEND_STATE_ACTIVE,	/* in a list, gets new connections */
	BACKEND_STATE_DRAINING, /* in no list; what it has goes on */
	BACKEND_STATE_GONE,	/* no slice lists it as serving */
};

/* Bits of struct backend.flags. */
enum backend_flag {
	BACKEND_FLAG_IN_CLUSTER = 1, /* 1 << LIST_KIND_CLUSTER */
	BACKEND_FLAG_IN_LOCAL = 2,   /* 1 << LIST_KIND_LOCAL */
	BACKEND_FLAG_ON_NODE = 4,    /* the endpoint is on this node */
};

/* The hook at which a flow's tuple is seen. A hairpin sees both at ingress. */
enum flow_direction {
	FLOW_DIRECTION_INGRESS,
	FLOW_DIRECTION_EGRESS,
};

enum flow_state {
	FLOW_STATE_NEW,		/* the client spoke */
	FLOW_STATE_REPLIED,	/* SYN-ACK or INIT ACK noted, or a datagram came back */
	FLOW_STATE_ESTABLISHED, /* confirmed; an entry of flows */
	FLOW_STATE_CLOSING,	/* this side sent FIN or SHUTDOWN, or either RST or ABORT */
	FLOW_STATE_COLLIDED,	/* the backend knows the tuple as another connection */
	FLOW_STATE_HELD,	/* a request's, on its way to netfilter: its packets wait until held_until */
};

/* Bits of struct flow.flags. */
enum flow_flag {
	FLOW_FLAG_REQUEST = 1,	   /* keyed by the client's tuple; else by the reply's */
	FLOW_FLAG_HAIRPIN = 2,	   /* client and backend are one: both at ingress */
	FLOW_FLAG_EXTERNAL = 4,	   /* it came by an external device: packets carry the accept bit */
	FLOW_FLAG_MASQUERADE = 8,  /* packets carry the masquerade and the accept bit */
	FLOW_FLAG_SAME_BRIDGE = 16, /* backend on the client's bridge: its MAC is written */
	FLOW_FLAG_DIRECT = 32,	   /* no service: a direct connection given another source port */
	FLOW_FLAG_CONFIRMED = 64,  /* the client proved that it receives */
	FLOW_FLAG_PROMOTED = 128,  /* in embryonic: the flow lives in flows now, or is over */
};

enum device_class {
	DEVICE_CLASS_NONE,
	DEVICE_CLASS_EXTERNAL,
	DEVICE_CLASS_POD,
	DEVICE_CLASS_TUNNEL,
};

/* Bits of struct device.flags. */
enum device_flag {
	DEVICE_FLAG_BRIDGE_PORT = 1, /* mac is the bridge's */
	DEVICE_FLAG_ISOLATED = 2,    /* isolated port: never MAC to MAC */
	DEVICE_FLAG_BRIDGE = 4,	     /* a bridge: its ports have seen the packet before */
	DEVICE_FLAG_INTERNAL = 8,    /* the clients behind it are internal, whatever their address */
};

/* Bits of struct node_address.flags. */
enum node_address_flag {
	NODE_ADDRESS_FLAG_LOOPBACK = 1,	 /* for sockets of the node only */
	NODE_ADDRESS_FLAG_NODE_PORT = 2, /* accepts node ports */
};

/* Index into drop_stats: packets and connections that Sluice ended, and why. */
enum drop_reason {
	DROP_REASON_NONE,
	DROP_REASON_NO_ENDPOINT_REJECTED,
	DROP_REASON_NO_ENDPOINT_DROPPED,
	DROP_REASON_UNDEFINED_PORT,
	DROP_REASON_UNALLOCATED, /* an address of a ServiceCIDR that no Service has */
	DROP_REASON_SOURCE_RANGE,
	DROP_REASON_FLOWS_FULL,
	DROP_REASON_COLLISION,
	DROP_REASON_CHALLENGE_ACK,
	DROP_REASON_UNKNOWN_FRAGMENT,
	DROP_REASON_ICMP_REDIRECT,
	DROP_REASON_REWRITE_FAILED,
	DROP_REASON_NO_FLOW, /* from the middle of a connection that nobody knows, or from the end of a flow that is over */
	DROP_REASON_COUNT,
};

/* ---- frontends and services ---- */

struct frontend_key {
	addr_t address; /* zero in nodeports */
	__be16 port;
	__u8 protocol; /* IPPROTO_* */
	__u8 zero;
};

struct frontend {
	struct frontend_key key;
	__u32 service;
	__u8 kind;  /* enum frontend_kind */
	__u8 flags; /* enum frontend_flag */
	__u16 zero;
};

struct nodeport_key {
	__be16 port;
	__u8 protocol; /* IPPROTO_* */
	__u8 zero;
};

struct address_key {
	addr_t address;
};

struct node_address {
	addr_t address;
	__u32 flags; /* enum node_address_flag */
};

struct cluster_ip {
	addr_t address;
	__u32 services; /* how many service ports have it */
};

/* A range whose addresses are internal clients, whatever device they are behind. */
struct local_cidr_key {
	__u32 prefix_length; /* bits */
	addr_t address;
};

struct service {
	__u8 list[8];	    /* [2 * frontend_kind + client_class]: enum list_kind */
	__u8 when_empty[8]; /* the same index: enum when_empty */
	__u8 masquerade[8]; /* the same index: enum masquerade */
	__u32 affinity_seconds; /* sessionAffinity ClientIP; 0: none */
	__u32 flags;		/* enum service_flag */
	__u8 cluster_ip[16];	/* network order; IPv4 in the first four bytes */
	__u8 scheduler;		/* enum scheduler */
	__u8 protocol;		/* IPPROTO_* */
	__u8 family;		/* 4 or 6 */
	__u8 zero;
	__u32 reserved[3];
};

/* What people call a service; the programs never read it. */
struct service_name {
	char namespace[64];
	char name[64];
	char port_name[64];
	__u8 protocol; /* IPPROTO_* */
	__u8 family;   /* 4 or 6 */
	__u16 zero;
};

/*
 * One word, so that it switches at once. The slots are in the order in which the scheduler goes through them; one that
 * goes by a table (Maglev) has a backend in many.
 */
struct list {
	__u32 first; /* slot in backend_slots */
	__u32 count; /* of slots */
};

struct backend {
	addr_t address;
	__be16 port;
	__u8 state; /* enum backend_state */
	__u8 flags; /* enum backend_flag */
	__u32 service;
	__u32 generation; /* of this use of the id; never repeats */
	__u32 weight;
};

struct affinity_key {
	__u64 netns_cookie; /* a socket's client; 0: a packet's */
	addr_t address;	    /* a packet's client; 0: a socket's */
	__u32 service;
#if FAMILY == 6
	__u32 zero;
#endif
};

struct affinity {
	struct affinity_key key;
	__u32 backend;
	__u32 generation;
	__u32 last_use; /* seconds, CLOCK_MONOTONIC */
	__u32 zero;
};

struct source_range_key {
	__u32 prefix_length; /* bits: 32 for the service and the prefix's own */
	__be32 service;
	addr_t address;
};

/* ---- flows ---- */

struct tuple {
	addr_t source;
	addr_t destination;
	__be16 source_port;
	__be16 destination_port;
};

struct flow_key {
	struct tuple tuple;
	__u8 protocol;	/* IPPROTO_* */
	__u8 direction; /* enum flow_direction */
	__u16 zero;
};

/*
 * One side of a flow: packets that look like `key` become `to`. The other side is keyed by `to` reversed, at the other
 * hook (a hairpin: at the same).
 */
struct flow {
	struct flow_key key;
	struct tuple to;
	__u32 backend;
	__u32 generation; /* the backend's when it was picked */
	__u32 service;
	__u32 ifindex;	 /* the client's device */
	__u32 last_seen; /* seconds of the sweep's clock */
	__u32 created;	 /* milliseconds, CLOCK_MONOTONIC_COARSE, wraps */
	__u32 sequence;	 /* the SYN-ACK's, host order; of SCTP the INIT ACK's tag */
	__u8 state;	 /* enum flow_state */
	__u8 flags;	 /* enum flow_flag */
	__u8 syns;	 /* retransmitted SYNs or INITs while unreplied */
	__u8 reset;	 /* a RST or an ABORT was seen on this side */
	__u32 traffic;	 /* packets, in the upper 8 bits, and bytes that service_stats has yet to be told of; of a confirmed flow */
};

struct outbound {
	struct flow_key key; /* as the reply will look at ingress */
	__u32 last_seen;     /* seconds of the sweep's clock */
};

struct fragment_key {
	addr_t source;
	addr_t destination;
	__u32 id; /* as in the header */
	__u8 protocol; /* IPPROTO_*; in IPv6 the id is enough: 0 */
	__u8 zero[3];
};

struct fragment {
	struct fragment_key key;
	__be16 source_port;
	__be16 destination_port;
	__u8 protocol; /* IPPROTO_* */
	__u8 zero[3];
};

/* ---- sockets ---- */

struct socket_key {
	__u64 cookie;
};

struct socket {
	__u64 cookie;
	__u64 netns_cookie; /* where it can be found */
	addr_t frontend_address;
	addr_t backend_address;
	__be16 frontend_port;
	__be16 backend_port;
	__u32 backend;
	__u32 generation;
	__u32 service;
	__u8 protocol;
	__u8 connected; /* by connect(); else the last peer of an unconnected one */
	__u16 zero;
	__u32 reserved;
};

struct socket_peer_key {
	__u64 cookie;
	addr_t address;
	__be16 port;
	__u8 is_backend; /* address and port are a backend's; else a frontend's */
	__u8 zero;
#if FAMILY == 6
	__u32 reserved;
#endif
};

struct socket_peer {
	struct socket_peer_key key;
	addr_t address; /* the other one */
	__be16 port;
	__u16 zero;
	__u32 backend;
	__u32 generation;
#if FAMILY == 6
	__u32 reserved;
#endif
};

/* A network namespace whose sockets are served, or not, whatever the others' are. */
struct socket_netns {
	__u64 cookie;
	__u32 serves; /* 0: leave its sockets alone */
	__u32 zero;
};

/* ---- devices and counters ---- */

struct device {
	__u32 ifindex;
	__u32 bridge; /* ifindex of the bridge of a port; 0: none */
	__u8 mac[6];  /* frames to it are for this node */
	__u8 class;   /* enum device_class */
	__u8 flags;   /* enum device_flag */
};

struct service_stats {
	__u64 connections; /* flows and sockets balanced */
	__u64 refused;	   /* for want of an endpoint or of room, or kept out by source ranges */
	__u64 request_packets; /* translated ones; segments that the kernel has as one are one */
	__u64 request_bytes;   /* from the IP header on */
	__u64 reply_packets;
	__u64 reply_bytes;
};

/* ---- globals with a section, and a pin, of their own ---- */

#define FILTER_WORDS (1 << (LAYOUT_FILTER_BITS - 6))

/* A range that ClusterIPs are given out from; an IPv4 address is in the first word. */
struct service_cidr {
	__be32 address[4];
	__be32 mask[4];
};

/* The count is zero while the ranges are written. */
struct service_cidrs {
	__u32 count;
	__u32 zero;
	struct service_cidr ranges[LAYOUT_SERVICE_CIDRS];
};

/*
 * Bit h of an address' hash h (filter.h): may it be a frontend's or the node's, a backend's? Set before an entry appears,
 * cleared by rebuilding.
 */
struct filter {
	__u64 frontend_bits[FILTER_WORDS];
	__u64 backend_bits[FILTER_WORDS];
	struct service_cidrs service_cidrs4;
	struct service_cidrs service_cidrs6;
};

struct datapath_state {
	__u32 now;	    /* seconds of the sweep's clock: stands still without it */
	__u32 direct_flows; /* not 0: look up direct connections too */
	__u32 full_at;	    /* milliseconds (as flow.created) of the last full table */
	__u32 sweep_from;   /* where the next sweep goes on */
	__u32 daemon;	    /* its process id as the kernel counts them: who called the sweep last */
	__u32 handover_until; /* seconds of the sweep's clock: connections of a proxy before us may live so long */
	__u32 draining;	    /* not 0: what belongs to no flow passes, for who balances after us */
	__u32 held_until;   /* milliseconds (as flow.created): held flows go on after it */
};

/* Context of the sweep program: first two in, the rest out. */
struct sweep {
	__u32 now;   /* seconds of the sweep's clock */
	__u32 limit; /* flow sides to look at in this call */
	__u32 looked;
	__u32 expired; /* sides deleted */
	__u32 done;    /* 1: the end of the table was reached */
};

#define ASSERT_SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)

#if FAMILY == 4
ASSERT_SIZE(struct frontend, 16);
ASSERT_SIZE(struct backend, 20);
ASSERT_SIZE(struct affinity, 32);
ASSERT_SIZE(struct flow_key, 16);
ASSERT_SIZE(struct flow, 64); /* a line of the cache, of its own in the element of a hash */
ASSERT_SIZE(struct socket, 48);
ASSERT_SIZE(struct socket_peer, 32);
#else
ASSERT_SIZE(struct frontend, 28);
ASSERT_SIZE(struct backend, 32);
ASSERT_SIZE(struct affinity, 48);
ASSERT_SIZE(struct flow_key, 40);
ASSERT_SIZE(struct flow, 112);
ASSERT_SIZE(struct socket, 72);
ASSERT_SIZE(struct socket_peer, 64);
#endif
ASSERT_SIZE(struct service, 64);
ASSERT_SIZE(struct list, 8);
ASSERT_SIZE(struct device, 16);

#endif
