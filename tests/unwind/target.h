/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_TESTS_UNWIND_TARGET_H
#define ALLOCSNAP_TESTS_UNWIND_TARGET_H

/* Unwinds a stopped thread with our tables and our step, natively. */

#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#define FRAMES_MAX 2048

struct stack {
	uint32_t nr;
	int end; /* enum unwind_end; UNWIND_GOES_ON: FRAMES_MAX reached */
	uint64_t pc[FRAMES_MAX];
};

/* The words of enum unwind_end, and how many there are. */
extern const char *const end_name[];
extern const uint32_t end_nr;

struct target;

/* Tables stay, over several processes. */
struct target *target__open(pid_t pid);
void target__close(struct target *target);

/* Reads the current mappings. All threads must be stopped. */
void target__look(struct target *target);
void target__unwind(struct target *target, const struct user_regs_struct *regs,
		     struct stack *ret);

#endif
