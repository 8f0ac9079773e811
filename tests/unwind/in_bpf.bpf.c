// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The headers of include/ in a BPF program: they compile, and the verifier lets them pass. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "shared/unwind_types.h"

/* BPF arrays have a stride of 8 bytes: two rows to a value. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 17);
	__type(key, __u32);
	__type(value, __u64);
} row_pairs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct unwind_rule);
} rules SEC(".maps");

struct unwind_rows {
	int unused;
};

static __always_inline unwind_row unwind_rows__at(const struct unwind_rows *rows, bpf_u32 index)
{
	bpf_u32 pair = index / 2;
	__u64 *value = bpf_map_lookup_elem(&row_pairs, &pair);

	return value ? *value >> 32 * (index & 1) : 0;
}

struct unwind_memory {
	__u64 unreadable_nr;
};

static __always_inline int unwind_memory__read(struct unwind_memory *memory, bpf_u64 address,
					       bpf_u64 *ret_word)
{
	bpf_u64 word;

	if (bpf_probe_read_user(&word, sizeof(word), (void *)address)) {
		memory->unreadable_nr++;
		return -1;
	}
	*ret_word = word;
	return 0;
}

#include "shared/unwind_step.h"

/* The state that the programs below share: global functions take no pointers into the stack. */
struct walk_state {
	struct unwind_frame frame;
	struct unwind_memory memory;
	__u32 first, nr;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct walk_state);
} states SEC(".maps");

__weak __noinline int find_rule(__u32 first, __u32 nr, __u64 address)
{
	return UNWIND_ROW_RULE(unwind_find_row(NULL, first, nr, address));
}

__weak __noinline int step(struct walk_state *state)
{
	struct unwind_rule *rule;
	__u32 id;

	if (!state)
		return UNWIND_NO_RULE;
	id = find_rule(state->first, state->nr, unwind_rule_address(&state->frame));
	rule = bpf_map_lookup_elem(&rules, &id);
	return rule ? unwind_step(*rule, &state->frame, &state->memory) : UNWIND_NO_RULE;
}

SEC("kprobe/unwind")
int unwind(struct pt_regs *ctx)
{
	__u32 zero = 0;
	struct walk_state *state = bpf_map_lookup_elem(&states, &zero);

	for (int i = 0; state && i < 128; i++)
		if (step(state) != UNWIND_GOES_ON)
			break;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
