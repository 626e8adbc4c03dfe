/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inject
 *
 * Sends each line of its input, an IP datagram in hexadecimal, as it is: with
 * the addresses, ports and sequence numbers that stand in it.
 */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static size_t decode(const char *text, unsigned char *bytes, size_t room)
{
	size_t length = 0;

	while (length < room && sscanf(text + 2 * length, "%2hhx", &bytes[length]) == 1)
		length++;
	return length;
}

static int send_datagram(const unsigned char *bytes, size_t length)
{
	const struct iphdr *ip = (const void *)bytes;
	const struct ip6_hdr *ip6 = (const void *)bytes;
	struct sockaddr_in to4 = { .sin_family = AF_INET };
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6 };
	int family = length > 0 && bytes[0] >> 4 == 6 ? AF_INET6 : AF_INET;
	int raw;
	ssize_t sent;

	if (length < (family == AF_INET ? sizeof(*ip) : sizeof(*ip6)))
		return -1;
	raw = socket(family, SOCK_RAW, IPPROTO_RAW);
	if (raw < 0)
		return -1;
	if (family == AF_INET) {
		to4.sin_addr.s_addr = ip->daddr;
		sent = sendto(raw, bytes, length, 0, (struct sockaddr *)&to4, sizeof(to4));
	} else {
		to6.sin6_addr = ip6->ip6_dst;
		sent = sendto(raw, bytes, length, 0, (struct sockaddr *)&to6, sizeof(to6));
	}
	return sent == (ssize_t)length ? 0 : -1;
}

int main(void)
{
	static char line[8192];
	static unsigned char bytes[sizeof(line) / 2];

	while (fgets(line, sizeof(line), stdin)) {
		if (send_datagram(bytes, decode(line, bytes, sizeof(bytes)))) {
			perror("inject");
			return 1;
		}
	}
	return 0;
}
