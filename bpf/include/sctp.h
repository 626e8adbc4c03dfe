/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * SCTP (RFC 9260): its header, what its chunks mean for a flow, and its CRC32c.
 *
 * To the machinery of flows an association is a connection like TCP's, and a
 * packet's first chunk is told in TCP's flags. What proves that a client
 * receives is the verification tag: the backend draws it for its INIT ACK, and
 * only who got that can put it into a COOKIE ECHO.
 *
 * An ABORT bundled behind other chunks is not seen; such an association ends by
 * silence. Further addresses of a multihomed end are none of the flow's.
 */
#ifndef SLUICE_SCTP_H
#define SLUICE_SCTP_H

#include <linux/types.h>
#include <bpf/bpf_helpers.h>

enum sctp_chunk {
	SCTP_INIT = 1,
	SCTP_INIT_ACK = 2,
	SCTP_ABORT = 6,
	SCTP_SHUTDOWN = 7,
	SCTP_SHUTDOWN_ACK = 8,
	SCTP_SHUTDOWN_COMPLETE = 14,
};

#define SCTP_ABORT_REFLECTED_TAG 1 /* the T bit: the tag is the receiver's own */

/* The common header, and the first chunk's up to an Initiate Tag. */
struct sctp_header {
	__be16 source;
	__be16 dest;
	__be32 tag;
	__le32 checksum;
	__u8 chunk;
	__u8 flags;
	__be16 length;
	__be32 initiate_tag; /* of INIT and INIT ACK */
};

/* Castagnoli's polynomial, bits reflected: the highest bit of a word is the coefficient of x^0. */
#define CRC32C_POLYNOMIAL 0x82f63b78

/* x^(8 * 2^k) modulo the polynomial: multiplying by it is what 2^k bytes of zeros do to a CRC. */
static const __u32 crc32c_zeros[] = {
	0x00800000, 0x00008000, 0x82f63b78, 0x6ea2d55c, 0x18b8ea18, 0x510ac59a,
	0xb82be955, 0xb8fdb1e7, 0x88e56f72, 0x74c360a4, 0xe4172b16, 0x0d65762a,
	0x35d73a62, 0x28461564, 0xbf455269, 0xe2ea32dc,
};

/* The product of two polynomials modulo Castagnoli's. Without branches: the verifier walks it once. */
__noinline int crc32c_multiply(__u32 left, __u32 right)
{
	__u32 product = 0;

	for (int i = 0; i < 32; i++) {
		product ^= right & -(left >> 31);
		left <<= 1;
		right = (right >> 1) ^ (CRC32C_POLYNOMIAL & -(right & 1));
	}
	return product;
}

/*
 * What the CRC32c over `length` bytes changes by when their first word, as it
 * is in memory, changes by `difference`. A CRC is linear: it is that of the
 * difference followed by zeros (RFC 9260, appendix A).
 */
static __always_inline __u32 crc32c_change(__u32 difference, __u32 length)
{
	for (__u32 k = 0; k < sizeof(crc32c_zeros) / sizeof(crc32c_zeros[0]); k++) {
		if (length >> k & 1)
			difference = crc32c_multiply(difference, crc32c_zeros[k]);
	}
	return difference;
}

/* The CRC32c of some words, as it stands in a header. */
static __always_inline __u32 crc32c(const __u32 *words, __u32 count)
{
	__u32 crc = 0xffffffff;

	for (__u32 i = 0; i < count; i++) {
		crc ^= words[i];
		for (int bit = 0; bit < 32; bit++)
			crc = (crc >> 1) ^ (CRC32C_POLYNOMIAL & -(crc & 1));
	}
	return ~crc;
}

#endif
