/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve SERVER PORT
 *
 * Answers by TCP and UDP, in both families, as the server of this number. Says
 * `ready` when it does, and then whenever that has changed
 *
 *     open CONNECTIONS datagrams COUNT
 */
#include "peer.h"

#define TICK_MS 10
#define REPORT_TICKS 20

struct connection {
	int fd;
	uint32_t got;	  /* bytes of `ask` */
	uint32_t unsent;  /* bytes of the batch */
	uint32_t batched; /* answers of the batch */
	uint64_t number;
	uint64_t next_ms;
	struct ask ask;
	struct connection *next, **at; /* among those that go on answering */
	struct answer batch[];
};

static uint32_t server;
static uint64_t open_connections, datagrams;
static struct connection *answering;

static int listen_on(int type, uint16_t port)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int fd = socket(AF_INET6, type | SOCK_NONBLOCK, 0);
	int yes = 1, buffer = 8 << 20;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer));
	if (fd < 0 || bind(fd, (void *)&any, sizeof(any)) || (type == SOCK_STREAM && listen(fd, 65535)))
		die("serve: bind");
	return fd;
}

static void end_connection(struct connection *connection)
{
	if (connection->at) {
		*connection->at = connection->next;
		if (connection->next)
			connection->next->at = connection->at;
	}
	close(connection->fd);
	free(connection);
	open_connections--;
}

/* A batch more when its time has come. False: the connection is over. */
static int go_on(struct connection *connection, uint64_t now)
{
	struct ask *ask = &connection->ask;
	uint32_t count, i;
	ssize_t sent;

	if (!connection->unsent && now < connection->next_ms)
		return 1;
	if (!connection->unsent) {
		count = ask->answers - connection->number < BATCH ? ask->answers - connection->number : BATCH;
		for (i = 0; i < count; i++)
			connection->batch[i] = (struct answer){ MAGIC, server, connection->number + i };
		connection->batched = count;
		connection->unsent = count * sizeof(struct answer);
		connection->next_ms = now + ask->interval_ms;
	}
	sent = send(connection->fd,
		    (char *)connection->batch + connection->batched * sizeof(struct answer) - connection->unsent,
		    connection->unsent, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent < 0)
		return errno == EAGAIN;
	connection->unsent -= sent;
	if (!connection->unsent)
		connection->number += connection->batched;
	return connection->unsent || connection->number < ask->answers || ask->end == END_BY_CLIENT;
}

static int is_answered(const struct connection *connection)
{
	return !connection->unsent && connection->number >= connection->ask.answers;
}

/* False: the connection is over. */
static int hear(struct connection *connection)
{
	ssize_t got = recv(connection->fd, (char *)&connection->ask + connection->got,
			   sizeof(struct ask) - connection->got, MSG_DONTWAIT);

	if (got <= 0)
		return got < 0 && errno == EAGAIN;
	connection->got += got;
	if (connection->got < sizeof(struct ask))
		return 1;
	if (connection->ask.magic != MAGIC)
		return 0;
	connection->got = 0;
	connection->number = connection->unsent = connection->next_ms = 0;
	if (!go_on(connection, now_ms()))
		return 0;
	if (!is_answered(connection) && !connection->at) {
		connection->next = answering;
		connection->at = &answering;
		if (answering)
			answering->at = &connection->next;
		answering = connection;
	}
	return 1;
}

static void accept_all(int epoll, int listener)
{
	struct connection *connection;
	int fd, yes = 1;

	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
		/* Pages that are not written to cost nothing: the batch of most is one answer. */
		connection = calloc(1, sizeof(*connection) + BATCH * sizeof(struct answer));
		if (!connection)
			die("serve: calloc");
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
		connection->fd = fd;
		open_connections++;
		watch(epoll, fd, EPOLLIN, connection);
	}
	if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
		die("serve: accept");
}

static void answer_datagrams(int fd)
{
	struct sockaddr_in6 from;
	socklen_t length = sizeof(from);
	struct answer answer;

	while (recvfrom(fd, &answer, sizeof(answer), 0, (void *)&from, &length) == sizeof(answer)) {
		answer.server = server;
		datagrams++;
		sendto(fd, &answer, sizeof(answer), 0, (void *)&from, length);
	}
}

static void tick(int timer)
{
	static uint64_t open_told, datagrams_told, ticks;
	struct connection *connection, *next;
	uint64_t expired, now = now_ms();

	if (read(timer, &expired, sizeof(expired)) < 0)
		return;
	for (connection = answering; connection; connection = next) {
		next = connection->next;
		if (!go_on(connection, now)) {
			end_connection(connection);
		} else if (is_answered(connection)) {
			*connection->at = connection->next;
			if (connection->next)
				connection->next->at = connection->at;
			connection->at = NULL;
		}
	}
	if (++ticks % REPORT_TICKS || (open_told == open_connections && datagrams_told == datagrams))
		return;
	open_told = open_connections;
	datagrams_told = datagrams;
	printf("open %lu datagrams %lu\n", open_told, datagrams_told);
}

int main(int argc, char **argv)
{
	struct epoll_event events[EVENTS];
	int epoll = new_epoll(), timer = new_timer(TICK_MS);
	int listener, datagram, count, i;

	if (argc != 3)
		usage("serve SERVER PORT");
	take_all_files();
	setvbuf(stdout, NULL, _IOLBF, 0);
	server = atoi(argv[1]);
	listener = listen_on(SOCK_STREAM, atoi(argv[2]));
	datagram = listen_on(SOCK_DGRAM, atoi(argv[2]));
	watch(epoll, listener, EPOLLIN, &listener);
	watch(epoll, datagram, EPOLLIN, &datagram);
	watch(epoll, timer, EPOLLIN, &timer);
	printf("ready\n");
	while ((count = epoll_wait(epoll, events, EVENTS, -1)) >= 0 || errno == EINTR) {
		int ticked = 0;

		for (i = 0; i < count; i++) {
			void *what = events[i].data.ptr;

			if (what == &listener)
				accept_all(epoll, listener);
			else if (what == &datagram)
				answer_datagrams(datagram);
			else if (what == &timer)
				ticked = 1; /* it ends connections that may be among the events */
			else if (!hear(what))
				end_connection(what);
		}
		if (ticked)
			tick(timer);
	}
	die("serve: epoll_wait");
}
