/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_CALIBRATE_H
#define ALLOCSNAP_COLLECT_CALIBRATE_H

/*
 * What a trap costs on this machine: empty programs on functions of our own, attached as a recording
 * attaches its own, and our thread's CPU time. Takes some 20 ms; nobody but us hits these probes.
 */

#include <stdint.h>

struct detacher;
struct probe_way;
struct reason;

/* Zeroed: they are not known. */
struct trap_costs {
	uint64_t entry_ns;   /* at an instruction that the kernel emulates */
	uint64_t stepped_ns; /* at one that it single-steps */
	uint64_t return_ns;  /* what the return of a call adds to its entry */
};

/*
 * 0, or a negative errno with a line in *why, and *ret as it was: -ENOTSUP on other machines than
 * x86-64. The probes are left to the detacher.
 */
int calibrate(const struct probe_way *way, struct detacher *detacher, struct trap_costs *ret,
	      struct reason *why);

#endif
