/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flood ADDRESS PORT COUNT [FIRST RATE]
 *
 * Sends to a TCP port from addresses that are not ours, those of 198.18.0.0/15
 * (RFC 2544: for tests, routed nowhere): COUNT times a SYN, then an ACK that
 * guesses the number of the SYN-ACK it never sees. Addresses and ports are those
 * of the packets number FIRST to FIRST + COUNT - 1; no two of a billion are alike.
 * RATE: SYNs a second; else as fast as they go.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_SOURCE 0xc6120000u
#define SOURCES (1u << 17)
#define BATCH 128

struct packet {
	struct iphdr ip;
	struct tcphdr tcp;
};

static uint16_t checksum_of(const struct packet *packet)
{
	const uint16_t *words = (const uint16_t *)&packet->tcp;
	uint32_t sum = htons(IPPROTO_TCP) + htons(sizeof(packet->tcp));

	sum += (packet->ip.saddr & 0xffff) + (packet->ip.saddr >> 16);
	sum += (packet->ip.daddr & 0xffff) + (packet->ip.daddr >> 16);
	for (size_t i = 0; i < sizeof(packet->tcp) / 2; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return ~((sum & 0xffff) + (sum >> 16));
}

/* The kernel fills in the length and the checksum of the IP header: raw(7). */
static void fill(struct packet *packet, const struct sockaddr_in *target, uint32_t number)
{
	uint32_t source = number % SOURCES, round = number / SOURCES;

	memset(packet, 0, sizeof(*packet));
	packet->ip.version = 4;
	packet->ip.ihl = 5;
	packet->ip.ttl = 64;
	packet->ip.protocol = IPPROTO_TCP;
	packet->ip.saddr = htonl(FIRST_SOURCE + source);
	packet->ip.daddr = target->sin_addr.s_addr;
	packet->tcp.source = htons(1024 + (source + round) % 60000);
	packet->tcp.dest = target->sin_port;
	packet->tcp.seq = htonl(number * 2654435761u);
	packet->tcp.doff = 5;
	packet->tcp.window = htons(65535);
}

static void send_all(int raw, struct mmsghdr *messages, unsigned int count)
{
	unsigned int sent = 0;

	while (sent < count) {
		int n = sendmmsg(raw, messages + sent, count - sent, 0);

		if (n < 0) {
			perror("flood: sendmmsg");
			exit(1);
		}
		sent += n;
	}
}

int main(int argc, char **argv)
{
	static struct packet packets[2 * BATCH];
	static struct mmsghdr messages[2 * BATCH];
	static struct iovec vectors[2 * BATCH];
	struct sockaddr_in target = { .sin_family = AF_INET };
	unsigned int count, first, rate, i, k;
	int raw;

	if ((argc != 4 && argc != 6) || inet_pton(AF_INET, argv[1], &target.sin_addr) != 1) {
		fprintf(stderr, "usage: flood ADDRESS PORT COUNT [FIRST RATE]\n");
		return 2;
	}
	target.sin_port = htons(atoi(argv[2]));
	count = strtoul(argv[3], NULL, 10);
	first = argc == 6 ? strtoul(argv[4], NULL, 10) : 0;
	rate = argc == 6 ? strtoul(argv[5], NULL, 10) : 0;
	raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
	if (raw < 0) {
		perror("flood: socket");
		return 1;
	}
	for (k = 0; k < 2 * BATCH; k++) {
		vectors[k].iov_base = &packets[k];
		vectors[k].iov_len = sizeof(packets[k]);
		messages[k].msg_hdr.msg_iov = &vectors[k];
		messages[k].msg_hdr.msg_iovlen = 1;
		messages[k].msg_hdr.msg_name = &target;
		messages[k].msg_hdr.msg_namelen = sizeof(target);
	}
	for (i = 0; i < count; i += BATCH) {
		unsigned int batch = count - i < BATCH ? count - i : BATCH;

		for (k = 0; k < batch; k++) {
			struct packet *syn = &packets[k], *ack = &packets[batch + k];

			fill(syn, &target, first + i + k);
			*ack = *syn;
			syn->tcp.syn = 1;
			syn->tcp.check = checksum_of(syn);
			ack->tcp.ack = 1;
			ack->tcp.seq = htonl(ntohl(syn->tcp.seq) + 1);
			ack->tcp.ack_seq = htonl(random());
			ack->tcp.check = checksum_of(ack);
		}
		send_all(raw, messages, 2 * batch);
		if (rate)
			usleep(batch * 1000000ull / rate);
	}
	return 0;
}
