/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold COUNT AT_ONCE SILENCE_MS TARGET...
 *
 * Opens COUNT connections to the targets in turn, as fast as they come about
 * with AT_ONCE under way, and holds those that are answered. When all are, and
 * for each line of its input, on which it asks once more on every one that it
 * holds, it says
 *
 *     held ANSWERED refused REFUSED lost LOST
 *
 * Lost is what ended otherwise than by an answer or a refusal; each is told,
 * too: `failed BEGIN END TARGET SERVER 0 WHAT`, as ask.c does, and of refusals
 * `refused TIME COUNT` since the last time. Ends with its input, and with a reset
 * on each connection.
 */
#include "peer.h"

#define TICK_MS 200
#define TARGETS_MAX 16

enum state { STATE_NONE, STATE_CONNECTING, STATE_ASKED, STATE_HELD };

struct connection {
	int fd;
	enum state state;
	uint32_t target, server;
	uint64_t asked;
};

static struct sockaddr_storage targets[TARGETS_MAX];
static socklen_t target_lengths[TARGETS_MAX];
static struct connection *connections;
static uint32_t count, at_once, silence_ms, target_count, begun, waiting, held, refused, lost;
static int epoll;

static void drop(struct connection *one, int error, const char *what)
{
	if (one->state == STATE_CONNECTING && error == ECONNREFUSED) {
		refused++;
	} else {
		lost++;
		printf("failed %lu %lu %u %u 0 %s\n", one->asked, now_ms(), one->target, one->server, what);
	}
	if (one->state == STATE_HELD)
		held--;
	else
		waiting--;
	one->state = STATE_NONE;
	close(one->fd);
}

static void begin(struct connection *one)
{
	one->target = begun++ % target_count;
	one->fd = socket(targets[one->target].ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	if (one->fd < 0)
		die("hold: socket");
	one->state = STATE_CONNECTING;
	one->asked = now_ms();
	waiting++;
	if (connect(one->fd, (void *)&targets[one->target], target_lengths[one->target]) && errno != EINPROGRESS)
		drop(one, errno, strerrorname_np(errno));
	else
		watch(epoll, one->fd, EPOLLOUT, one);
}

static void ask(struct connection *one)
{
	struct ask ask = { MAGIC, END_BY_CLIENT, 1, 0 };
	socklen_t length = sizeof(int);
	int error = 0;

	getsockopt(one->fd, SOL_SOCKET, SO_ERROR, &error, &length);
	if (!error && send(one->fd, &ask, sizeof(ask), MSG_NOSIGNAL) != sizeof(ask))
		error = errno;
	if (error) {
		drop(one, error, strerrorname_np(error));
		return;
	}
	if (one->state == STATE_HELD)
		held--, waiting++;
	one->state = STATE_ASKED;
	one->asked = now_ms();
	watch(epoll, one->fd, EPOLLIN, one);
}

static void hear(struct connection *one)
{
	struct answer answer;
	ssize_t got = recv(one->fd, &answer, sizeof(answer), MSG_WAITALL);

	if (got < 0 && errno == EAGAIN)
		return;
	if (got < 0) {
		drop(one, errno, strerrorname_np(errno));
	} else if (got != sizeof(answer)) {
		drop(one, 0, "CLOSED");
	} else if (answer.magic != MAGIC || answer.number || (one->server && one->server != answer.server) ||
		   one->state != STATE_ASKED) {
		drop(one, 0, "GARBLED");
	} else {
		one->server = answer.server;
		one->state = STATE_HELD;
		waiting--;
		held++;
	}
}

static void tell_refused(void)
{
	static uint32_t told;

	if (told != refused)
		printf("refused %lu %u\n", now_ms(), refused - told);
	told = refused;
	fflush(stdout);
}

static void fail_silent(void)
{
	uint64_t now = now_ms();

	for (struct connection *one = connections; one < connections + count; one++)
		if ((one->state == STATE_CONNECTING || one->state == STATE_ASKED) && now - one->asked > silence_ms)
			drop(one, 0, one->state == STATE_CONNECTING ? "TIMEOUT" : "SILENCE");
}

/* Lines of the input: so many times to ask again. False: its end. */
static int read_lines(void)
{
	char bytes[64];
	ssize_t got = read(0, bytes, sizeof(bytes));

	if (got <= 0)
		return 0;
	for (struct connection *one = connections; one < connections + count; one++)
		if (one->state == STATE_HELD)
			ask(one);
	return 1;
}

static void tell(void)
{
	tell_refused();
	printf("held %u refused %u lost %u\n", held, refused, lost);
	fflush(stdout);
}

static void reset_all(void)
{
	struct linger reset = { .l_onoff = 1 };

	for (struct connection *one = connections; one < connections + count; one++) {
		if (one->state == STATE_NONE)
			continue;
		setsockopt(one->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(one->fd);
	}
}

static void parse(int argc, char **argv)
{
	if (argc < 5 || argc - 4 > TARGETS_MAX)
		usage("hold COUNT AT_ONCE SILENCE_MS TARGET...");
	count = atoi(argv[1]);
	at_once = atoi(argv[2]);
	silence_ms = atoi(argv[3]);
	for (; (int)target_count < argc - 4; target_count++)
		targets[target_count] = parse_target(argv[4 + target_count], &target_lengths[target_count]);
	connections = calloc(count, sizeof(*connections));
	if (!connections)
		die("hold: calloc");
}

int main(int argc, char **argv)
{
	struct epoll_event events[EVENTS];
	int timer = new_timer(TICK_MS), is_told = 0, is_open = 1, ready, i;
	uint64_t expired;

	parse(argc, argv);
	take_all_files();
	epoll = new_epoll();
	watch(epoll, timer, EPOLLIN, &timer);
	watch(epoll, 0, EPOLLIN, &epoll);
	while (is_open) {
		while (begun < count && waiting < at_once)
			begin(&connections[begun]);
		if (begun == count && !waiting && !is_told)
			tell(), is_told = 1;
		ready = epoll_wait(epoll, events, EVENTS, -1);
		for (i = 0; i < ready; i++) {
			struct connection *one = events[i].data.ptr;

			if (events[i].data.ptr == &epoll)
				is_open = read_lines(), is_told = 0;
			else if (events[i].data.ptr == &timer && read(timer, &expired, sizeof(expired)) > 0)
				fail_silent(), tell_refused();
			else if (events[i].data.ptr == &timer || one->state == STATE_NONE)
				continue;
			else if (one->state == STATE_CONNECTING)
				ask(one);
			else
				hear(one);
		}
	}
	reset_all();
	return 0;
}
