/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the entry goes on to, by tail call: one array a family. An empty slot is a family that is not loaded. */
#ifndef SLUICE_PROGRAMS_H
#define SLUICE_PROGRAMS_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

enum program {
	PROGRAM_TRANSLATE_REQUEST,
	PROGRAM_TRANSLATE_REPLY,
	PROGRAM_TRANSLATE_REQUEST_L3, /* of a packet without a link-layer header */
	PROGRAM_TRANSLATE_REPLY_L3,
	PROGRAM_COUNT,
};

#define PROGRAM_ARRAY                            \
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);   \
	__uint(max_entries, PROGRAM_COUNT);      \
	__uint(key_size, sizeof(__u32))

#endif
