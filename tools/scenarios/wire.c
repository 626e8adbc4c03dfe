/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire NAMESPACE NAMESPACE DEVICE
 *
 * Makes a tun device in each of two network namespaces, by their names below
 * /run/netns, and carries packets from one to the other until its input ends.
 * Writes a line when both are there.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int open_tun(const char *namespace, const char *device)
{
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	char path[256];
	int netns, tun;

	snprintf(path, sizeof(path), "/run/netns/%s", namespace);
	netns = open(path, O_RDONLY | O_CLOEXEC);
	if (netns < 0 || setns(netns, CLONE_NEWNET))
		return -1;
	close(netns);
	strncpy(request.ifr_name, device, IFNAMSIZ - 1);
	tun = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
	return tun < 0 || ioctl(tun, TUNSETIFF, &request) ? -1 : tun;
}

/* A packet that the other side does not take, its device being down, is lost as on any wire. */
static void carry(int from, int to)
{
	static char packet[65536];
	ssize_t length = read(from, packet, sizeof(packet));

	if (length > 0 && write(to, packet, length) < 0)
		return;
}

int main(int argc, char **argv)
{
	struct pollfd ends[3] = { { .fd = STDIN_FILENO, .events = POLLIN } };

	for (int i = 1; i <= 2 && argc == 4; i++)
		ends[i] = (struct pollfd){ .fd = open_tun(argv[i], argv[3]), .events = POLLIN };
	if (ends[1].fd <= 0 || ends[2].fd <= 0) {
		perror("wire");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	while (poll(ends, 3, -1) > 0 && !ends[0].revents) {
		if (ends[1].revents)
			carry(ends[1].fd, ends[2].fd);
		if (ends[2].revents)
			carry(ends[2].fd, ends[1].fd);
	}
	return 0;
}
