/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Refusals: a RST for TCP (RFC 9293, 3.10.7.1), an ABORT for SCTP (RFC 9260, 8.4), an ICMP port unreachable for
 * UDP (RFC 1122, 3.2.2.1; RFC 4443, 3.1), written over the packet and sent back to where it
 * came from.
 */
#ifndef SLUICE_REJECT_H
#define SLUICE_REJECT_H

#include "device.h"

/*
 * Is the skb CHECKSUM_PARTIAL? No field tells, but a change that is not the
 * pseudo-header's leaves the checksum of such a packet as it is. Of others it is
 * put back, or the sum over the packet (CHECKSUM_COMPLETE) would not be right.
 */
static __noinline bool is_partial(struct __sk_buff *skb, __u32 check_offset)
{
	__u16 before, after;

	if (bpf_skb_load_bytes(skb, check_offset, &before, sizeof(before)) ||
	    bpf_l4_csum_replace(skb, check_offset, 0, 1, 0) ||
	    bpf_skb_load_bytes(skb, check_offset, &after, sizeof(after)))
		return false;
	if (before == after)
		return true;
	bpf_skb_store_bytes(skb, check_offset, &before, sizeof(before), 0);
	return false;
}

/* Replaces all behind the link-layer header and turns the frame round. */
static __always_inline int answer_with(struct __sk_buff *skb, const struct packet *packet,
				       const struct headers *headers, const void *answer, __u32 length)
{
	if (bpf_skb_change_tail(skb, headers->link + length, 0) ||
	    bpf_skb_store_bytes(skb, headers->link, answer, length, BPF_F_RECOMPUTE_CSUM))
		return VERDICT_DROP;
	return send_back(skb, packet->key.direction, headers->link);
}

static __noinline int reject_tcp(struct __sk_buff *skb, const struct packet *packet,
				 const struct headers *headers)
{
	struct {
		ip_header_t ip;
		struct tcphdr tcp;
	} answer = {};
	__u32 header = headers->transport - headers->link;
	__u32 sum, length = payload_length(headers->ip, header) - headers->tcp->doff * 4;
	bool partial;

	if (packet->tcp_flags & TCP_RST)
		return VERDICT_DROP;
	answer.ip = answer_header(&packet->tuple, IPPROTO_TCP, sizeof(answer.tcp));
	answer.tcp.source = packet->tuple.destination_port;
	answer.tcp.dest = packet->tuple.source_port;
	answer.tcp.doff = sizeof(answer.tcp) / 4;
	answer.tcp.rst = 1;
	if (packet->tcp_flags & TCP_ACK) {
		answer.tcp.seq = bpf_htonl(packet->acknowledged);
	} else {
		length += !!(packet->tcp_flags & TCP_SYN) + !!(packet->tcp_flags & TCP_FIN);
		answer.tcp.ack = 1;
		answer.tcp.ack_seq = bpf_htonl(packet->sequence + length);
	}
	partial = is_partial(skb, headers->transport + offsetof(struct tcphdr, check));
	/* With options the place where the device completes the sum would move: silence. */
	if (partial && header != sizeof(ip_header_t))
		return VERDICT_DROP;
	sum = pseudo_header_sum(&answer.ip, sizeof(answer.tcp));
	if (partial)
		answer.tcp.check = fold_to_16(sum);
	else
		answer.tcp.check =
			~fold_to_16(bpf_csum_diff(NULL, 0, (__be32 *)&answer.tcp, sizeof(answer.tcp), sum));
	return answer_with(skb, packet, headers, &answer, sizeof(answer));
}

/*
 * Quotes the IP header without options or extensions and eight bytes, which is
 * what every receiver needs. When the skb is CHECKSUM_PARTIAL the device will
 * write the complement of the sum of all that follows the IP header into the
 * unused field of the ICMP header. What is put there makes that zero.
 */
static __noinline int reject_udp(struct __sk_buff *skb, const struct packet *packet,
				 const struct headers *headers)
{
	struct {
		ip_header_t ip;
		struct icmp_header icmp;
		ip_header_t quoted;
		struct udphdr udp;
	} answer = {};
	__u32 start, payload = sizeof(answer) - sizeof(answer.ip);
	__u32 transport = headers->transport;

	answer.ip = answer_header(&packet->tuple, ICMP_PROTOCOL, payload);
	answer.icmp.type = ICMP_UNREACHABLE;
	answer.icmp.code = ICMP_UNREACHABLE_PORT;
	answer.quoted = quoted_header(headers->ip, packet->protocol);
	answer.udp = *headers->ports;
	start = icmp_sum_start(&answer.ip, payload);
	answer.icmp.checksum = ~fold_to_16(bpf_csum_diff(NULL, 0, (__be32 *)&answer.icmp, payload, start));
	if (is_partial(skb, transport + offsetof(struct udphdr, check))) {
		/* With options the device would write somewhere else: silence. */
		if (transport != headers->link + sizeof(ip_header_t))
			return VERDICT_DROP;
		((__u16 *)&answer.icmp.rest)[1] = fold_to_16(start);
	}
	return answer_with(skb, packet, headers, &answer, sizeof(answer));
}

/*
 * An ABORT (RFC 9260, 5.1 and 8.4): to an INIT with the tag that it announces,
 * to anything else with the packet's own, which the T bit says. When the device
 * is to fill in the CRC, the field is zero, and stays so.
 */
static __noinline int reject_sctp(struct __sk_buff *skb, const struct packet *packet, const struct headers *headers)
{
	struct {
		ip_header_t ip;
		__be16 source, dest;
		__be32 tag;
		__le32 checksum;
		__u8 chunk, flags;
		__be16 length;
	} answer = {};
	__u32 sum;

	if (bpf_skb_load_bytes(skb, headers->transport + offsetof(struct sctp_header, checksum), &sum, sizeof(sum)))
		return VERDICT_DROP;
	/* With options the place where the device puts the CRC would move: silence. */
	if (packet->tcp_flags & TCP_RST || (!sum && headers->transport != headers->link + sizeof(ip_header_t)))
		return VERDICT_DROP;
	answer.ip = answer_header(&packet->tuple, IPPROTO_SCTP, sizeof(answer) - sizeof(answer.ip));
	answer.source = packet->tuple.destination_port;
	answer.dest = packet->tuple.source_port;
	answer.chunk = SCTP_ABORT;
	answer.length = bpf_htons(4);
	if (packet->tcp_flags & TCP_ACK) {
		answer.tag = bpf_htonl(packet->acknowledged - 1);
		answer.flags = SCTP_ABORT_REFLECTED_TAG;
	} else {
		answer.tag = bpf_htonl(packet->sequence);
	}
	if (sum)
		answer.checksum = crc32c((const __u32 *)&answer.source, 4);
	return answer_with(skb, packet, headers, &answer, sizeof(answer));
}

/* A later fragment has no header to answer to: silence. */
static __always_inline int reject(struct __sk_buff *skb, const struct packet *packet,
				  const struct headers *headers)
{
	if (headers->tcp)
		return reject_tcp(skb, packet, headers);
	if (headers->ports && packet->protocol == IPPROTO_SCTP)
		return reject_sctp(skb, packet, headers);
	return headers->ports ? reject_udp(skb, packet, headers) : VERDICT_DROP;
}

#endif
