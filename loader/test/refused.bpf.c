/* A program that the verifier refuses: it reads behind the end of the packet. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("tc")
int fine(struct __sk_buff *skb)
{
	return (int)skb->len;
}

SEC("tc")
int reads_too_far(struct __sk_buff *skb)
{
	char *data = (char *)(long)skb->data;

	return data[14];
}

char LICENSE[] SEC("license") = "GPL";
