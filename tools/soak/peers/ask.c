/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask RATE AT_ONCE ANSWERS INTERVAL_MS SILENCE_MS PORTS TARGET...
 *
 * Opens RATE connections a second, AT_ONCE at most at a time, to the targets in
 * turn; asks on each for so many answers, in batches with an interval between
 * them. One on which nothing has come for SILENCE_MS has failed, as has one that
 * the kernel gives up to connect. PORTS: local
 * ports to use over and over, FIRST-LAST; `-`: the kernel's choice. A third of
 * the connections each is closed by the client, reset by it, and closed by the
 * server (of local ports of one's own: half and half of the latter). Says
 *
 *     from TIME TARGET SERVER COUNT    so many connections begun at that time went to that server
 *     failed BEGIN END TARGET SERVER PORT WHAT    by which local port
 *     so far OFFERED ANSWERED SLOW OPEN
 *
 * Times are milliseconds since 1970, targets numbers from 0 on. SIGTERM: opens
 * no more, and ends when all have their answers.
 */
#include "peer.h"

#define TICK_MS 5
#define REPORT_TICKS 40
#define SLOW_MS 1000
#define BUCKET_MS 50
#define BUCKETS 4096
#define TARGETS_MAX 16
#define TRIES 8

enum close_by { CLOSE_BY_SERVER, RESET_BY_CLIENT, CLOSE_BY_CLIENT, CLOSE_KINDS };

struct request {
	int fd, is_connected;
	uint32_t target, close_by, server, got;
	uint64_t begin, heard, answers;
	struct request *next, *previous;
	struct answer part;
};

/* What is told: by time, target and server. */
struct bucket {
	uint64_t time, begun;
	uint32_t target, server;
};

static struct sockaddr_storage targets[TARGETS_MAX];
static socklen_t target_lengths[TARGETS_MAX];
static uint32_t target_count, at_once, answers, interval_ms, silence_ms, first_port, last_port;
static uint64_t offered, answered, slow, open_count;
static struct request *oldest, *newest;
static struct bucket buckets[BUCKETS];
static size_t bucket_count;
static int epoll;

static void tell_buckets(void)
{
	for (size_t i = 0; i < bucket_count; i++) {
		const struct bucket *one = &buckets[i];

		printf("from %lu %u %u %lu\n", one->time, one->target, one->server, one->begun);
	}
	bucket_count = 0;
}

static struct bucket *bucket_of(const struct request *request)
{
	uint64_t time = request->begin - request->begin % BUCKET_MS;
	struct bucket *one;

	for (one = buckets; one < buckets + bucket_count; one++)
		if (one->time == time && one->target == request->target && one->server == request->server)
			return one;
	if (bucket_count == BUCKETS)
		tell_buckets();
	one = &buckets[bucket_count++];
	*one = (struct bucket){ .time = time, .target = request->target, .server = request->server };
	return one;
}

static void end_request(struct request *request)
{
	struct linger reset = { .l_onoff = 1 };

	if (request->previous)
		request->previous->next = request->next;
	else
		oldest = request->next;
	if (request->next)
		request->next->previous = request->previous;
	else
		newest = request->previous;
	if (request->close_by == RESET_BY_CLIENT)
		setsockopt(request->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	close(request->fd);
	free(request);
	open_count--;
}

static uint16_t local_port(int fd)
{
	struct sockaddr_in6 own = {}; /* the port is at the same place in both families */
	socklen_t length = sizeof(own);

	getsockname(fd, (void *)&own, &length);
	return ntohs(own.sin6_port);
}

static void fail(struct request *request, const char *what)
{
	printf("failed %lu %lu %u %u %u %s\n", request->begin, now_ms(), request->target, request->server,
	       local_port(request->fd), what);
	request->close_by = RESET_BY_CLIENT; /* never goes on in the background */
	end_request(request);
}

static void succeed(struct request *request)
{
	answered++;
	if (answers == 1 && now_ms() - request->begin > SLOW_MS)
		slow++;
	end_request(request);
}

static int bind_next_port(int fd, int family)
{
	static uint32_t used;
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6 };
	struct sockaddr_in any = { .sin_family = AF_INET };
	int yes = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	any.sin_port = any6.sin6_port = htons(first_port + used++ % (last_port - first_port + 1));
	return family == AF_INET ? bind(fd, (void *)&any, sizeof(any)) : bind(fd, (void *)&any6, sizeof(any6));
}

/* False: there was no local port for it, so there is no request. */
static int try_request(uint32_t target)
{
	int family = targets[target].ss_family, yes = 1;
	struct request *request;
	int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return 0;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	if ((first_port && bind_next_port(fd, family)) ||
	    (connect(fd, (void *)&targets[target], target_lengths[target]) && errno == EADDRNOTAVAIL)) {
		close(fd);
		return 0;
	}
	request = calloc(1, sizeof(*request));
	if (!request)
		die("ask: calloc");
	request->fd = fd;
	request->target = target;
	request->begin = request->heard = now_ms();
	/* Each way with each target. */
	request->close_by = offered / target_count % (first_port ? CLOSE_BY_CLIENT : CLOSE_KINDS);
	request->previous = newest;
	if (newest)
		newest->next = request;
	else
		oldest = request;
	newest = request;
	offered++;
	open_count++;
	/* What connect() said at once it says again. */
	watch(epoll, fd, EPOLLOUT, request);
	return 1;
}

static void begin_request(void)
{
	static uint32_t turn;

	for (int i = 0; i < TRIES && !try_request(turn % target_count); i++)
		;
	turn++;
}

static void say(struct request *request)
{
	enum end end = request->close_by == CLOSE_BY_SERVER ? END_BY_SERVER : END_BY_CLIENT;
	struct ask ask = { MAGIC, end, answers, interval_ms };
	socklen_t length = sizeof(int);
	int error = 0;

	getsockopt(request->fd, SOL_SOCKET, SO_ERROR, &error, &length);
	if (!error && send(request->fd, &ask, sizeof(ask), MSG_NOSIGNAL) != sizeof(ask))
		error = errno;
	if (error) {
		fail(request, strerrorname_np(error));
		return;
	}
	request->is_connected = 1;
	request->heard = now_ms();
	watch(epoll, request->fd, EPOLLIN, request);
}

/* One more answer. False: it is none that can come. */
static int take(struct request *request, const struct answer *answer)
{
	if (answer->magic != MAGIC || answer->number != request->answers || request->answers == answers)
		return 0;
	if (!request->answers++) {
		request->server = answer->server;
		bucket_of(request)->begun++;
	}
	return answer->server == request->server;
}

static void hear(struct request *request)
{
	static char bytes[BATCH * sizeof(struct answer)];
	ssize_t got = recv(request->fd, bytes, sizeof(bytes), 0);

	if (got < 0 && errno == EAGAIN)
		return;
	if (got < 0) {
		fail(request, strerrorname_np(errno));
		return;
	}
	if (!got) {
		if (request->close_by == CLOSE_BY_SERVER && request->answers == answers && !request->got)
			succeed(request);
		else
			fail(request, "CLOSED");
		return;
	}
	request->heard = now_ms();
	for (ssize_t i = 0; i < got; i++) {
		((char *)&request->part)[request->got++] = bytes[i];
		if (request->got < sizeof(struct answer))
			continue;
		request->got = 0;
		if (!take(request, &request->part)) {
			fail(request, "GARBLED");
			return;
		}
	}
	if (request->answers == answers && request->close_by != CLOSE_BY_SERVER)
		succeed(request);
}

static void fail_silent(void)
{
	struct request *request, *next;
	uint64_t now = now_ms();

	for (request = oldest; request; request = next) {
		next = request->next;
		/* The kernel knows how long to try to connect. */
		if (request->is_connected && now - request->heard > silence_ms)
			fail(request, "SILENCE");
	}
}

static void tick(int timer, uint32_t rate)
{
	static uint64_t ticks, last;
	static double due;
	uint64_t expired, now = now_ms();

	if (read(timer, &expired, sizeof(expired)) < 0)
		return;
	if (last)
		due += rate * (now - last) / 1000.0;
	last = now;
	/* What a machine under load could not offer in time is not offered all at once later. */
	if (due > rate / 4.0 + 1)
		due = rate / 4.0 + 1;
	for (; due >= 1 && open_count < at_once; due--)
		begin_request();
	if (++ticks % REPORT_TICKS)
		return;
	fail_silent();
	tell_buckets();
	printf("so far %lu %lu %lu %lu\n", offered, answered, slow, open_count);
}

static void parse(int argc, char **argv)
{
	if (argc < 8 || argc - 7 > TARGETS_MAX)
		usage("ask RATE AT_ONCE ANSWERS INTERVAL_MS SILENCE_MS PORTS TARGET...");
	at_once = atoi(argv[2]);
	answers = atoi(argv[3]);
	interval_ms = atoi(argv[4]);
	silence_ms = atoi(argv[5]);
	sscanf(argv[6], "%u-%u", &first_port, &last_port);
	for (; (int)target_count < argc - 7; target_count++)
		targets[target_count] = parse_target(argv[7 + target_count], &target_lengths[target_count]);
}

int main(int argc, char **argv)
{
	struct epoll_event events[EVENTS];
	int ending = new_ending(), timer = new_timer(TICK_MS);
	int is_ending = 0, count, ticked, i;

	parse(argc, argv);
	take_all_files();
	epoll = new_epoll();
	watch(epoll, timer, EPOLLIN, &timer);
	watch(epoll, ending, EPOLLIN, &ending);
	while (!is_ending || open_count) {
		count = epoll_wait(epoll, events, EVENTS, -1);
		ticked = 0;
		for (i = 0; i < count; i++) {
			struct request *request = events[i].data.ptr;

			if (events[i].data.ptr == &ending)
				is_ending = 1, epoll_ctl(epoll, EPOLL_CTL_DEL, ending, NULL);
			else if (events[i].data.ptr == &timer)
				ticked = 1; /* it ends requests that may be among the events */
			else if (request->is_connected)
				hear(request);
			else
				say(request);
		}
		if (ticked)
			tick(timer, is_ending ? 0 : atoi(argv[1]));
		fflush(stdout);
	}
	tell_buckets();
	printf("so far %lu %lu %lu %lu\n", offered, answered, slow, open_count);
	return 0;
}
