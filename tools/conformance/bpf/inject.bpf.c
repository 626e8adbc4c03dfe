/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sends the frame of a test run out of a device, as if a process with a packet socket had. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

const volatile __u32 ifindex;

SEC("tc")
int inject(struct __sk_buff *skb)
{
	return bpf_clone_redirect(skb, ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
