/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RECORDING_CLEAR_TRACES_H
#define ALLOCSNAP_COLLECT_RECORDING_CLEAR_TRACES_H

/* Forgets all blocks of a process while it runs. 0 or a negative errno; -ESRCH: a process has ended. */

#include <stddef.h>
#include <stdint.h>

struct allocsnap_bpf;
struct bpf_program;
struct books;
struct collector;
struct grace;
struct target;

int clear_targets(struct allocsnap_bpf *bpf, struct books *books, struct grace *grace, struct target *const *target,
		  size_t nr);
int clear_target_traces(struct collector *collector, struct target *target);

/* Runs a program for the process with that slot. What it returns, or a negative errno. */
int run_request_program(const struct bpf_program *program, uint32_t slot);

#endif
