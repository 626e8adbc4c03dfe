/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Equality of small structs, word by word: the target has no memcmp(). */
#ifndef SLUICE_COMPARE_H
#define SLUICE_COMPARE_H

#include <stdbool.h>
#include <linux/types.h>

static __always_inline bool same_words(const void *one, const void *other, __u32 bytes)
{
	const volatile __u32 *left = one, *right = other;
	__u32 difference = 0;

#pragma unroll
	for (__u32 i = 0; i < bytes / 4; i++) {
		difference |= left[i] ^ right[i];
		/* One word after the other: all loads first would fill the stack. */
		asm volatile("" : "+r"(difference));
	}
	return !difference;
}

/* Both are of one type, whose size is a multiple of four. The left one may change under us. */
#define SAME(one, other)                                                                        \
	({                                                                                      \
		_Static_assert(sizeof(*(one)) == sizeof(*(other)) && sizeof(*(one)) % 4 == 0, ""); \
		same_words(one, other, sizeof(*(one)));                                         \
	})

static __always_inline bool same_mac(const __u8 *one, const __u8 *other)
{
	const __u16 *left = (const void *)one, *right = (const void *)other;

	return !((left[0] ^ right[0]) | (left[1] ^ right[1]) | (left[2] ^ right[2]));
}

#endif
