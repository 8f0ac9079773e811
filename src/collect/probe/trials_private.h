/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_TRIALS_PRIVATE_H
#define ALLOCSNAP_COLLECT_TRIALS_PRIVATE_H

/* What the files of trials.h share. */

#include <stdint.h>

/* Where code of ours lies in our own file; 0: not known. */
uint64_t trial_offset(uint64_t address);

/* A program that does nothing: a descriptor, or a negative errno. */
int trial_load_as(uint32_t attach_type);

/* Of any system call: -ENOSYS there is none; -EFAULT filters see it; -EACCES ours does. */
int trial_filtered_call(long call);

#endif
