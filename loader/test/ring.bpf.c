/* A ring buffer, and a program that writes into it. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define SIZE_MAX_ 64
#define COUNT_MAX 1024

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} ring SEC(".maps");

struct request {
	__u32 first; /* what the first record begins with; the next ones count up */
	__u32 count;
	__u32 size;    /* bytes of a record, 4 to 64; all but the first four have this value */
	__u32 discard; /* not 0: reserve SIZE_MAX_ bytes for each, and discard them */
	__u32 lost;    /* records that found no room */
};

SEC("syscall")
int write_records(struct request *request)
{
	__u8 record[SIZE_MAX_];
	__u32 size = request->size;
	void *reserved;

	request->lost = 0;
	__builtin_memset(record, 0, sizeof(record));
	for (__u32 i = 0; i < sizeof(record); i++)
		record[i] = size;
	for (__u32 i = 0; i < COUNT_MAX && i < request->count; i++) {
		if (request->discard) {
			reserved = bpf_ringbuf_reserve(&ring, sizeof(record), 0);
			if (reserved)
				bpf_ringbuf_discard(reserved, 0);
			else
				request->lost++;
			continue;
		}
		*(__u32 *)record = request->first + i;
		if (size < 4 || size > sizeof(record) || bpf_ringbuf_output(&ring, record, size, 0))
			request->lost++;
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
