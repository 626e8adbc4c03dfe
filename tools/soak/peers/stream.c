/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream INTERVAL_MS SILENCE_MS TARGET...
 *
 * Sends a numbered datagram from one socket to each target, once an interval.
 * Each is to be answered, by the target, once, within SILENCE_MS. Says
 *
 *     from TIME TARGET SERVER COUNT    so many of the datagrams sent at that time went to that server
 *     failed BEGIN END TARGET SERVER 0 WHAT
 *     so far SENT ANSWERED SLOW OPEN
 *
 * as ask.c does; `ECONNREFUSED` stands for one that was refused by an ICMP
 * error. SIGTERM: sends no more, and ends when the last answers are there.
 */
#include "peer.h"
#include <linux/errqueue.h>

#define REPORT_MS 200
#define SLOW_MS 1000
/* Datagrams of a target that can be under way. */
#define WINDOW 65536
#define TARGETS_MAX 16

struct sent {
	uint64_t time; /* 0: answered */
};

struct target {
	int fd;
	struct sockaddr_storage address;
	socklen_t length;
	uint64_t next, oldest, refused;
	uint32_t server; /* of the last answer */
	uint64_t bucket, bucket_count;
	struct sent sent[WINDOW];
};

static struct target targets[TARGETS_MAX];
static uint32_t target_count, silence_ms;
static uint64_t sent, answered, slow;

static uint32_t index_of(const struct target *target)
{
	return target - targets;
}

static void tell_bucket(struct target *target)
{
	if (target->bucket_count)
		printf("from %lu %u %u %lu\n", target->bucket, index_of(target), target->server, target->bucket_count);
	target->bucket_count = 0;
}

static void fail_at(const struct target *target, uint64_t begin, uint64_t end, const char *what)
{
	printf("failed %lu %lu %u %u 0 %s\n", begin, end, index_of(target), target->server, what);
}

static void fail(const struct target *target, uint64_t begin, const char *what)
{
	fail_at(target, begin, now_ms(), what);
}

static void open_target(int epoll, const char *text)
{
	struct target *target = &targets[target_count++];
	int yes = 1, buffer = 4 << 20, family;

	target->address = parse_target(text, &target->length);
	family = target->address.ss_family;
	target->fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	if (target->fd < 0)
		die("stream: socket");
	setsockopt(target->fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer));
	if (family == AF_INET)
		setsockopt(target->fd, IPPROTO_IP, IP_RECVERR, &yes, sizeof(yes));
	else
		setsockopt(target->fd, IPPROTO_IPV6, IPV6_RECVERR, &yes, sizeof(yes));
	watch(epoll, target->fd, EPOLLIN, target);
}

static void send_next(struct target *target)
{
	struct answer datagram = { MAGIC, 0, target->next };

	if (target->next - target->oldest == WINDOW)
		return;
	/* An error that was queued is told by the next call, whose datagram is not sent: so once more. */
	for (int i = 0; i < 4; i++)
		if (sendto(target->fd, &datagram, sizeof(datagram), 0, (void *)&target->address, target->length) > 0)
			break;
	target->sent[target->next++ % WINDOW].time = now_ms();
	sent++;
}

static void take(struct target *target, const struct answer *answer, int is_from_target)
{
	struct sent *one = &target->sent[answer->number % WINDOW];
	uint64_t bucket = one->time - one->time % 50;

	if (answer->magic != MAGIC || answer->number >= target->next) {
		fail(target, now_ms(), "GARBLED");
	} else if (!is_from_target) {
		fail(target, one->time, "STRANGER");
	} else if (answer->number < target->oldest || !one->time) {
		fail(target, now_ms(), "TWICE");
	} else {
		if (answer->server != target->server || bucket != target->bucket)
			tell_bucket(target);
		target->server = answer->server;
		target->bucket = bucket;
		target->bucket_count++;
		answered++;
		if (now_ms() - one->time > SLOW_MS)
			slow++;
		one->time = 0;
	}
}

static void hear(struct target *target)
{
	struct sockaddr_storage from;
	struct answer answer;
	struct iovec vector = { &answer, sizeof(answer) };
	struct msghdr message = { .msg_name = &from, .msg_iov = &vector, .msg_iovlen = 1 };
	char control[512];
	ssize_t got;

	for (;;) {
		message.msg_namelen = sizeof(from);
		got = recvmsg(target->fd, &message, 0);
		if (got == sizeof(answer)) {
			/* sockaddr_in6 has a flow label and a scope, which are nobody's address. */
			int same = target->address.ss_family == AF_INET ?
					   !memcmp(&from, &target->address, 8) :
					   !memcmp((char *)&from + 8, (char *)&target->address + 8, 16) &&
						   !memcmp(&from, &target->address, 4);

			take(target, &answer, same);
		} else if (got < 0 && errno == EAGAIN) {
			break;
		}
	}
	for (;;) {
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		if (recvmsg(target->fd, &message, MSG_ERRQUEUE) < 0)
			break;
		target->refused++;
	}
}

/* Which of those that are not answered were refused no quote tells for sure: the first ones. */
static void forget_old(struct target *target, uint64_t now)
{
	for (; target->oldest < target->next; target->oldest++) {
		struct sent *one = &target->sent[target->oldest % WINDOW];

		if (one->time && now - one->time <= silence_ms)
			break;
		if (one->time && target->refused) {
			target->refused--;
			fail_at(target, one->time, one->time, "ECONNREFUSED"); /* at once, though known late */
		} else if (one->time) {
			fail(target, one->time, "SILENCE");
		}
		one->time = 0;
	}
}

static uint64_t tell(void)
{
	uint64_t now = now_ms(), open = 0;

	for (struct target *target = targets; target < targets + target_count; target++) {
		forget_old(target, now);
		tell_bucket(target);
		open += target->next - target->oldest;
	}
	printf("so far %lu %lu %lu %lu\n", sent, answered, slow, open);
	fflush(stdout);
	return open;
}

int main(int argc, char **argv)
{
	struct epoll_event events[EVENTS];
	int ending = new_ending(), epoll = new_epoll(), timer, reports, is_ending = 0, count, i;
	uint64_t expired, open = 0;

	if (argc < 4 || argc - 3 > TARGETS_MAX)
		usage("stream INTERVAL_MS SILENCE_MS TARGET...");
	timer = new_timer(atoi(argv[1]));
	reports = new_timer(REPORT_MS);
	silence_ms = atoi(argv[2]);
	watch(epoll, timer, EPOLLIN, &timer);
	watch(epoll, reports, EPOLLIN, &reports);
	watch(epoll, ending, EPOLLIN, &ending);
	for (i = 3; i < argc; i++)
		open_target(epoll, argv[i]);
	while (!is_ending || open) {
		count = epoll_wait(epoll, events, EVENTS, -1);
		for (i = 0; i < count; i++) {
			if (events[i].data.ptr == &ending) {
				is_ending = 1;
				epoll_ctl(epoll, EPOLL_CTL_DEL, ending, NULL);
				open = 1;
			} else if (events[i].data.ptr == &timer) {
				if (read(timer, &expired, sizeof(expired)) > 0 && !is_ending)
					for (uint32_t k = 0; k < target_count; k++)
						send_next(&targets[k]);
			} else if (events[i].data.ptr == &reports) {
				if (read(reports, &expired, sizeof(expired)) > 0)
					open = tell();
			} else {
				hear(events[i].data.ptr);
			}
		}
	}
	return 0;
}
