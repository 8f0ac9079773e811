/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_PROBE_FEATURE_PROBES_PRIVATE_H
#define ALLOCSNAP_COLLECT_PROBE_FEATURE_PROBES_PRIVATE_H

/* Shared by the files of feature_probes.h. */

#include <stdint.h>

/* The offset of allocsnap's own code in its file; 0: unknown. */
uint64_t trial_offset(uint64_t address);

/* Loads a program that does nothing. A descriptor, or a negative errno. */
int trial_load_as(uint32_t attach_type);

/*
 * Tries any system call. -ENOSYS: it does not exist; -EFAULT: filters see it; -EACCES: a filter of this process
 * does.
 */
int trial_filtered_call(long call);

#endif
