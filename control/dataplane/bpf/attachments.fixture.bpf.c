/* The programs and the map that attachments need, doing nothing but to count packets. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct device {
	__u32 ifindex;
	__u32 bridge;
	__u8 mac[6];
	__u8 class;
	__u8 flags;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, struct device);
} devices SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} packets SEC(".maps");

static int count(__u32 where)
{
	__u64 *value = bpf_map_lookup_elem(&packets, &where);

	if (value)
		__sync_fetch_and_add(value, 1);
	return -1; /* TCX_NEXT */
}

SEC("tc")
int ingress(struct __sk_buff *skb)
{
	return count(0);
}

SEC("tc")
int egress(struct __sk_buff *skb)
{
	return count(1);
}

SEC("tc")
int ingress_l3(struct __sk_buff *skb)
{
	return count(0);
}

SEC("tc")
int egress_l3(struct __sk_buff *skb)
{
	return count(1);
}

SEC("tc")
int pass(struct __sk_buff *skb)
{
	return -1; /* TCX_NEXT */
}

/* Somebody else's: ends the chain, so that who is behind it sees nothing. */
SEC("tc")
int stranger(struct __sk_buff *skb)
{
	return 0; /* TCX_PASS */
}

SEC("cgroup/connect6")
int connect6(struct bpf_sock_addr *context)
{
	return 1;
}

SEC("cgroup/connect4")
int connect4(struct bpf_sock_addr *context)
{
	count(2);
	return 1;
}

SEC("cgroup/sendmsg6")
int sendmsg6(struct bpf_sock_addr *context)
{
	return 1;
}

SEC("cgroup/sendmsg4")
int sendmsg4(struct bpf_sock_addr *context)
{
	return 1;
}

SEC("cgroup/recvmsg6")
int recvmsg6(struct bpf_sock_addr *context)
{
	return 1;
}

SEC("cgroup/recvmsg4")
int recvmsg4(struct bpf_sock_addr *context)
{
	return 1;
}

SEC("cgroup/getpeername6")
int getpeername6(struct bpf_sock_addr *context)
{
	return 1;
}

SEC("cgroup/getpeername4")
int getpeername4(struct bpf_sock_addr *context)
{
	return 1;
}

SEC("cgroup/connect6")
int connect_mapped(struct bpf_sock_addr *context)
{
	return 1;
}

SEC("cgroup/recvmsg6")
int recvmsg_mapped(struct bpf_sock_addr *context)
{
	return 1;
}

SEC("cgroup/getpeername6")
int getpeername_mapped(struct bpf_sock_addr *context)
{
	return 1;
}

SEC("cgroup/sock_release")
int sock_release4(struct bpf_sock *socket)
{
	return 1;
}

SEC("cgroup/sock_release")
int sock_release6(struct bpf_sock *socket)
{
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
