/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_STACK_SWITCHES_H
#define ALLOCSNAP_ELF_STACK_SWITCHES_H

/* Signs that an object switches stacks: symbols, defined or referenced, and sections. */

#include <stddef.h>

struct elf_object;

struct stack_switch {
	const char *name;
	const char *what; /* a description: "switches stacks (libco)" */
};

extern const struct stack_switch stack_switches[];
extern const size_t stack_switch_nr;

/* The first sign in an object. 0; -ENOENT, -ENOMEM, -ENOEXEC as from elf_object__find_name(). */
int stack_switch_find(struct elf_object *elf, size_t *ret_index);

#endif
