/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The device a packet came in on: whether the packet is for this node, who sent it. */
#ifndef SLUICE_DEVICE_H
#define SLUICE_DEVICE_H

#include "packet.h"
#include "scratch.h"

/*
 * Frames for others are not ours to translate. On a bridge port every frame to
 * the node arrives as PACKET_OTHERHOST, so there the MAC decides.
 */
static __always_inline bool is_for_node(struct __sk_buff *skb, const struct device *device)
{
	__u8 destination[ETH_ALEN] __attribute__((aligned(2)));

	if (!(device->flags & DEVICE_FLAG_BRIDGE_PORT))
		return skb->pkt_type == PACKET_HOST;
	return !bpf_skb_load_bytes(skb, 0, destination, sizeof(destination)) && same_mac(destination, device->mac);
}

/* The device if it is one of ours and the packet is for this node, else NULL. */
static __always_inline struct device *accepting_device(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;
	struct device *device = bpf_map_lookup_elem(&devices, &ifindex);

	return device && is_for_node(skb, device) ? device : NULL;
}

/*
 * The device if it is one of ours and the packet begins its way there: one for
 * this node, or one that a bridge takes from port to port.
 */
static __always_inline struct device *first_device(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex;
	struct device *device = bpf_map_lookup_elem(&devices, &ifindex);

	return device && (device->flags & DEVICE_FLAG_BRIDGE_PORT || is_for_node(skb, device)) ? device : NULL;
}

/* What the client at `address` is, whose packet came in on this device. */
static __always_inline __u32 client_class(const struct device *device, const addr_t *address)
{
	struct local_cidr_key key = { .prefix_length = 8 * sizeof(*address), .address = *address };

	if (device->flags & DEVICE_FLAG_INTERNAL || bpf_map_lookup_elem(&local_cidrs, &key))
		return CLIENT_CLASS_INTERNAL;
	return CLIENT_CLASS_EXTERNAL;
}

/*
 * The route of a packet that came in on `ifindex`, in the scratch area. NULL: there
 * is none. `result` tells whether the neighbour is known.
 */
static __always_inline struct bpf_fib_lookup *route(struct __sk_buff *skb, __u32 ifindex,
						    const addr_t *source, const addr_t *destination,
						    long *result)
{
	struct scratch *scratch = get_scratch();
	struct bpf_fib_lookup *fib;

	if (!scratch)
		return NULL;
	fib = &scratch->fib;
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->ifindex = ifindex;
	set_route_addresses(fib, source, destination);
	*result = bpf_fib_lookup(skb, fib, sizeof(*fib), 0);
	return *result == BPF_FIB_LKUP_RET_SUCCESS || *result == BPF_FIB_LKUP_RET_NO_NEIGH ? fib : NULL;
}

/* Would the answers of a backend on this node leave by the device of the request? */
static __always_inline bool replies_return(struct __sk_buff *skb, const struct device *device,
					   const addr_t *backend, const addr_t *client)
{
	long result;
	struct bpf_fib_lookup *fib = route(skb, skb->ifindex, backend, client, &result);

	return fib && (fib->ifindex == skb->ifindex || (device->bridge && fib->ifindex == device->bridge));
}

static __always_inline bool on_same_bridge(struct __sk_buff *skb, const struct device *device,
					   const addr_t *client, const addr_t *backend)
{
	long result;
	struct bpf_fib_lookup *fib;

	if (!device->bridge || device->flags & DEVICE_FLAG_ISOLATED)
		return false;
	fib = route(skb, device->bridge, client, backend, &result);
	return fib && fib->ifindex == device->bridge;
}

/*
 * Sends a frame that the bridge's address would have routed back into the same
 * bridge straight to the backend, as the answer will come: the host's conntrack
 * sees both halves of the flow or neither. With the neighbour unknown the
 * gateway's MAC stays, and routing it makes the neighbour known.
 */
static __always_inline void address_to_neighbour(struct __sk_buff *skb, const addr_t *client,
						 const addr_t *backend)
{
	__u32 ifindex = skb->ifindex;
	struct device *device = bpf_map_lookup_elem(&devices, &ifindex);
	struct bpf_fib_lookup *fib;
	long result;

	if (!device || !device->bridge)
		return;
	fib = route(skb, device->bridge, client, backend, &result);
	if (fib && result == BPF_FIB_LKUP_RET_SUCCESS && fib->ifindex == device->bridge)
		bpf_skb_store_bytes(skb, offsetof(struct ethhdr, h_dest), fib->dmac, ETH_ALEN, 0);
}

static __always_inline bool swap_macs(struct __sk_buff *skb)
{
	__u8 macs[2 * ETH_ALEN], swapped[2 * ETH_ALEN];

	if (bpf_skb_load_bytes(skb, 0, macs, sizeof(macs)))
		return false;
	__builtin_memcpy(swapped, macs + ETH_ALEN, ETH_ALEN);
	__builtin_memcpy(swapped + ETH_ALEN, macs, ETH_ALEN);
	return !bpf_skb_store_bytes(skb, 0, swapped, sizeof(swapped), 0);
}

/*
 * Turns the frame round: out of the device it came in on, where its mark tells our egress, or back in at the one that
 * it was about to leave by. `hook`: enum flow_direction; `link`: bytes of the link-layer header, none or Ethernet's.
 */
static __always_inline int send_back(struct __sk_buff *skb, __u8 hook, __u32 link)
{
	if (link && !swap_macs(skb))
		return VERDICT_DROP;
	if (hook == FLOW_DIRECTION_EGRESS)
		return bpf_redirect(skb->ifindex, BPF_F_INGRESS);
	skb->mark |= mark_redirect;
	return bpf_redirect(skb->ifindex, 0);
}

#endif
