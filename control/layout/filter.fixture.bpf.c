/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The programs' own hash of an address, for the test that compares the two. */
#include <stdbool.h>
#include "../../bpf/include/filter.h"

SEC("syscall")
int hash_address(addr_t *address)
{
	addr_t copy = *address;

	return address_hash(&copy);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
