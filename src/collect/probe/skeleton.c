// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/probe/skeleton.h"

#include "shared/bpf_types.h"
#include "shared/filter_types.h"
#include "shared/python_calls.h"

#include "allocsnap.skel.h"

struct allocsnap_bpf *skeleton_open(void)
{
	return allocsnap_bpf__open();
}

int skeleton_load(struct allocsnap_bpf *bpf)
{
	return allocsnap_bpf__load(bpf);
}

void skeleton_close(struct allocsnap_bpf *bpf)
{
	allocsnap_bpf__destroy(bpf);
}

const void *skeleton_file(size_t *ret_bytes)
{
	return allocsnap_bpf__elf_bytes(ret_bytes);
}
