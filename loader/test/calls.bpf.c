/* A prog array that libbpf fills at load. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

int second(struct __sk_buff *skb);

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 2);
	__uint(key_size, sizeof(__u32));
	__array(values, int(struct __sk_buff *));
} tail_calls SEC(".maps") = {
	.values = { [1] = (void *)&second },
};

const volatile __u32 version = 1;

SEC("tc")
int first(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &tail_calls, 1);
	return 0;
}

SEC("tc")
int second(struct __sk_buff *skb)
{
	return (int)version;
}

char LICENSE[] SEC("license") = "GPL";
