/* A program that the verifier refuses: it reads behind the end of the packet. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} lengths SEC(".maps");

SEC("tc")
int fine(struct __sk_buff *skb)
{
	__u32 zero = 0, *length = bpf_map_lookup_elem(&lengths, &zero);

	if (length)
		*length = skb->len;
	return (int)skb->len;
}

SEC("tc")
int reads_too_far(struct __sk_buff *skb)
{
	char *data = (char *)(long)skb->data;

	return data[14];
}

char LICENSE[] SEC("license") = "GPL";
