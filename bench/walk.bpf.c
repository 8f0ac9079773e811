// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The cost of a walk over the stack alone: return probes that do nothing, that take a traceback
 * as a recording does (walk, hash, look it up), and that have the kernel walk by frame pointers.
 * The maps belong to a recording, which fills the tables.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "account/record.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct settings settings = {};
const volatile struct sample_tables sample_tables = {};
__u64 code_generation = 0;
__u64 tables_wanted = 0;
__u64 epoch = 1;
__u64 cut = 0;
__u64 any_dropped = 0;
__u64 shared_paused = 0;
__u64 shared_resumed_ns = 0;
__u64 blocks_most = ~0ULL, notes_most = ~0ULL;
__u64 tracebacks_most = ~0ULL >> 1;
__u64 tracebacks_held = 0;
__u64 python_codes_held = 0, python_codes_most = ~0ULL;
__u32 python_code_ids = 0;

#define BPF_F_USER_STACK (1 << 8) /* include/uapi/linux/bpf.h */

__u64 nframe = 0; /* found by the latest walk */
__u64 end = 0;	  /* enum unwind_end, by tables */

/* Calls are made by one thread, that is pinned to a processor. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct walk);
} scratch SEC(".maps");

static __always_inline struct walk *scratch_memory(void)
{
	__u32 only = 0;

	return bpf_map_lookup_elem(&scratch, &only);
}

SEC("uretprobe")
int nothing(struct pt_regs *ctx)
{
	return 0;
}

SEC("uretprobe")
int by_tables(struct pt_regs *ctx)
{
	const struct caller caller = { .ip = PT_REGS_IP(ctx), .sp = PT_REGS_SP(ctx), .frame_pointer = PT_REGS_FP(ctx) };
	struct process *process = current_process();
	struct walk *walk = scratch_memory();
	__u64 hash;

	if (!process || !walk)
		return 0;
	traceback_record(&caller, process, walk, &hash, false);
	nframe = walk->traceback.total_nframe;
	end = walk->traceback.end;
	return 0;
}

SEC("uretprobe")
int by_kernel(struct pt_regs *ctx)
{
	struct walk *walk = scratch_memory();
	long bytes;

	if (!walk)
		return 0;
	bytes = bpf_get_stack(ctx, walk->traceback.pc, sizeof(walk->traceback.pc), BPF_F_USER_STACK);
	nframe = bytes > 0 ? (__u64)bytes / 8 : 0;
	return 0;
}
