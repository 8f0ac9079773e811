/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ARGUMENT_BPF_H
#define ALLOCSNAP_ARGUMENT_BPF_H

/* Takes a value from where a thread has it at a place in the code (shared/argument_types.h). */

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "shared/argument_types.h"

/* n * size, or on overflow the largest size; such a call returns NULL. */
static __always_inline __u64 product(__u64 n, __u64 size)
{
	__u64 most = size ? ~0ULL / size : ~0ULL;

	barrier_var(most); /* otherwise clang uses a 128-bit multiplication, which BPF does not have */
	return n > most ? ~0ULL : n * size;
}

/* Cuts a value to its width. */
static __always_inline __u64 narrow_argument(const struct argument_source *source, __u64 value)
{
	__u32 shift = (64 - 8 * source->bytes) & 63;

	value <<= shift;
	return source->is_signed ? (__u64)((__s64)value >> shift) : value >> shift;
}

static __always_inline __u64 argument_register(struct pt_regs *ctx, __u32 place)
{
	__u64 value = 0;

	if (place != ARGUMENT_NO_REGISTER)
		bpf_probe_read_kernel(&value, sizeof(value), (void *)ctx + place);
	return value;
}

/* 0; else it cannot be read. */
static __always_inline int argument_value(struct pt_regs *ctx, const struct argument_source *source, __u64 *ret)
{
	__u64 value = 0, address;
	__u32 bytes = source->bytes;
	int err = 0;

	barrier_var(bytes); /* otherwise clang reads it again behind the check */
	if (bytes > sizeof(value))
		return 1;
	if (source->kind == ARGUMENT_CONSTANT) {
		value = source->value;
	} else if (source->kind == ARGUMENT_REGISTER) {
		value = argument_register(ctx, source->base);
	} else {
		address = source->value + argument_register(ctx, source->base) +
			  argument_register(ctx, source->index) * source->scale;
		if (source->kind == ARGUMENT_ADDRESS)
			value = address;
		else
			err = bpf_probe_read_user(&value, bytes, (void *)address);
	}
	*ret = narrow_argument(source, value);
	return err;
}

#endif
