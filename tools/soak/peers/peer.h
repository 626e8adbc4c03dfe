/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the soak's servers and clients share. They are of C since they must take
 * little of a machine on which the daemon is to have a share, too.
 *
 * A client asks (`struct ask`); a server answers with so many `struct answer`,
 * each with its number, so that nothing can be missing, twice or another's. A
 * datagram is one `struct answer`, which comes back with who it was. All in the
 * machine's own byte order: nothing leaves it.
 */
#ifndef SLUICE_PEER_H
#define SLUICE_PEER_H

#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x534c5543
/* Answers that a server sends at a time. */
#define BATCH 256
#define EVENTS 256

enum end {
	END_BY_CLIENT, /* the connection stays until the client closes it */
	END_BY_SERVER, /* the server closes it behind the last answer */
};

struct ask {
	uint32_t magic;
	uint32_t end;	      /* enum end */
	uint32_t answers;     /* how many */
	uint32_t interval_ms; /* between two batches of them */
};

struct answer {
	uint32_t magic;
	uint32_t server; /* whose answer it is */
	uint64_t number; /* from 0 on */
};

static inline void die(const char *what)
{
	perror(what);
	exit(1);
}

static inline void usage(const char *words)
{
	fprintf(stderr, "usage: %s\n", words);
	exit(2);
}

/* Milliseconds since 1970: what is told is compared with the clocks of others. */
static inline uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

/* ADDRESS:PORT or [ADDRESS]:PORT. */
static inline struct sockaddr_storage parse_target(const char *text, socklen_t *length)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV }, *found;
	struct sockaddr_storage address = {};
	const char *colon = strrchr(text, ':');
	char host[64] = "";

	if (!colon || colon - text >= (long)sizeof(host))
		die(text);
	memcpy(host, text, colon - text);
	if (host[0] == '[')
		memmove(host, host + 1, strcspn(host, "]") - 1), host[strcspn(host, "]") - 1] = 0;
	if (getaddrinfo(host, colon + 1, &hints, &found))
		die(text);
	memcpy(&address, found->ai_addr, found->ai_addrlen);
	*length = found->ai_addrlen;
	freeaddrinfo(found);
	return address;
}

static inline int new_epoll(void)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0)
		die("epoll_create1");
	return epoll;
}

static inline void watch(int epoll, int fd, uint32_t events, void *data)
{
	struct epoll_event event = { .events = events, .data.ptr = data };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) && epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event))
		die("epoll_ctl");
}

static inline int new_timer(uint32_t interval_ms)
{
	struct timespec interval = { interval_ms / 1000, interval_ms % 1000 * 1000000l };
	struct itimerspec timer = { .it_interval = interval, .it_value = interval };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);

	if (fd < 0 || timerfd_settime(fd, 0, &timer, NULL))
		die("timerfd");
	return fd;
}

/* SIGTERM says: no more of it, come to an end. */
static inline int new_ending(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &set, SFD_NONBLOCK);
	if (fd < 0)
		die("signalfd");
	return fd;
}

/* As many sockets as the machine lets a process have. */
static inline void take_all_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		die("getrlimit");
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

#endif
