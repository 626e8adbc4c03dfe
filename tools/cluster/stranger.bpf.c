/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Somebody else's program: lets every packet pass, and nobody after it see one. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int stranger(struct __sk_buff *skb)
{
	(void)skb;
	return 0; /* TCX_PASS */
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
