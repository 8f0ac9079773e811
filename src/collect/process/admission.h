/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_ADMISSION_H
#define ALLOCSNAP_COLLECT_ADMISSION_H

/* Whom a recording of everybody admits; the judge is the kernel's side (bpf/filter/rules.bpf.h). */

#include <stddef.h>

#include "shared/bpf_types.h"

struct admission_rule;
struct allocsnap_bpf;
struct collector_options;
struct reason;

/* One rule as the kernel's side has it. 0, or -EINVAL with a line that names what is right. */
int admission_parse(const struct admission_rule *rule, struct rule *ret, struct reason *why);

/* All of them, before the programs are loaded. 0 or as above. */
int admission_configure(struct rules *rules, const struct collector_options *options,
			struct reason *why);

/* Tells the kernel's side who we are, when they are. 0 or a negative errno. */
int admission_begin(const struct allocsnap_bpf *bpf);

/* Who is admitted and has no books, in *ret, which the caller frees. 0 or a negative errno. */
int admission_find(const struct allocsnap_bpf *bpf, struct admissible_process **ret, size_t *ret_nr);

#endif
