/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_PYTHON_BRANCHES_H
#define ALLOCSNAP_ELF_PYTHON_BRANCHES_H

/* The targets of a file's branches. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct python_code;

/* Zeroed: none. */
struct python_branches {
	uint8_t *target; /* a bit for each byte of the code */
	uint64_t start;
	size_t size;
};

/* Notes the target of the instruction decoded last, if it is a branch of two bytes. 0 or -ENOMEM. */
int python_branches__note_short(struct python_branches *branches, const struct python_code *code);

/*
 * Notes the targets of everything in the code that looks like a branch with a distance of four bytes, wherever it begins.
 * 0 or -ENOMEM.
 */
int python_branches__note_long(struct python_branches *branches, const struct python_code *code);

void python_branches__release(struct python_branches *branches);

/* Whether a branch that was noted leads to one of the addresses from first to last. */
bool python_branches__lead_to(const struct python_branches *branches, uint64_t first, uint64_t last);

#endif
