/* Somebody else's program on the sockets of a cgroup: lets nobody connect. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("cgroup/connect4")
int refuse(struct bpf_sock_addr *context)
{
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
