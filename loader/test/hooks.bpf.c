/* Programs for hooks: tc and XDP programs that return a constant, and one that refuses connections to a port. */
#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} seen SEC(".maps");

static void note(__u32 who)
{
	__u64 *count = bpf_map_lookup_elem(&seen, &who);

	if (count)
		__sync_fetch_and_add(count, 1);
}

SEC("tc")
int pass_on(struct __sk_buff *skb)
{
	note(0);
	return -1; /* TCX_NEXT */
}

SEC("tc")
int accept(struct __sk_buff *skb)
{
	note(1);
	return 0;
}

SEC("xdp")
int xdp_pass(struct xdp_md *frame)
{
	note(0);
	return XDP_PASS;
}

SEC("xdp")
int xdp_drop(struct xdp_md *frame)
{
	note(1);
	return XDP_DROP;
}

SEC("cgroup/connect4")
int refuse_port_9(struct bpf_sock_addr *address)
{
	return address->user_port != bpf_htons(9);
}

SEC("cgroup/connect4")
int refuse_nothing(struct bpf_sock_addr *address)
{
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
