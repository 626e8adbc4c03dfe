/* One map of each kind, constants, globals, and programs that touch them. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

struct pair {
	__u32 left;
	__u32 right;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1000);
	__type(key, struct pair);
	__type(value, __u64);
} pairs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u64);
} cells SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 100);
	__type(key, __u32);
	__type(value, __u32);
} recent SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 100);
	__type(key, struct pair);
	__type(value, __u32);
} prefixes SEC(".maps");

const volatile __u32 answer = 41;
const volatile __s8 small = -1;
const volatile _Bool enabled = 0;
const volatile __u8 address[6] = {};

__u64 filter[64] SEC(".data.filter");
__u32 runs = 7;

SEC("tc")
int count_packet(struct __sk_buff *skb)
{
	__u32 zero = 0;
	__u64 *cell = bpf_map_lookup_elem(&cells, &zero);
	__u64 *count = bpf_map_lookup_elem(&counts, &zero);

	if (cell)
		__sync_fetch_and_add(cell, 1);
	if (count)
		*count += 1;
	runs += 1;
	filter[1] = skb->len;
	return enabled ? (int)answer : small;
}

struct request {
	__u32 add;
	__u32 sum;
};

SEC("syscall")
int add_up(struct request *request)
{
	struct pair key = { 1, 2 };
	__u64 *value = bpf_map_lookup_elem(&pairs, &key);

	request->sum = request->add + (value ? (__u32)*value : 0) + address[5];
	return 5;
}

char LICENSE[] SEC("license") = "GPL";
