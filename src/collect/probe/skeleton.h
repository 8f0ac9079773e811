/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_SKELETON_H
#define ALLOCSNAP_COLLECT_PROBE_SKELETON_H

/*
 * The functions of the generated skeleton. Only skeleton.c has the bytes of the BPF programs; others include the types
 * (collect/bpf.h), which seldom change.
 */

#include <stddef.h>

struct allocsnap_bpf;

/* NULL and errno. */
struct allocsnap_bpf *skeleton_open(void);

/* 0 or a negative errno. */
int skeleton_load(struct allocsnap_bpf *bpf);

void skeleton_close(struct allocsnap_bpf *bpf);

/* The ELF file. */
const void *skeleton_file(size_t *ret_bytes);

#endif
