/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ELF_OPERAND_TEXT_H
#define ALLOCSNAP_ELF_OPERAND_TEXT_H

/* Parts of the texts of arguments (argument_source.h): numbers, as on all machines, and the operands of each machine. */

#include <stdint.h>

#include "base/reason.h"
#include "shared/argument_types.h"

/* A sum of numbers; *at moves behind it. */
int parse_number(const char **at, uint64_t *ret, struct reason *why);
/* Returns err; `what` goes on behind "an argument of a probe". */
int refuse_argument(struct reason *why, int err, const char *what, const char *at);

/* The text behind the width. *ret is a constant of value 0, without registers, before. */
int x86_parse_operand(const char **at, struct argument_source *ret, struct reason *why);
int a64_parse_operand(const char **at, struct argument_source *ret, struct reason *why);

#endif
