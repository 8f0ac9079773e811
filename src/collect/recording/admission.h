/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_RECORDING_ADMISSION_H
#define ALLOCSNAP_COLLECT_RECORDING_ADMISSION_H

/* Which processes a system-wide recording records. The kernel side decides (bpf/filter/rules.bpf.h). */

#include <stddef.h>

#include "shared/filter_types.h"

struct admission_rule;
struct allocsnap_bpf;
struct collector_options;
struct reason;

/* Converts one rule to the form that the kernel side uses. 0, or -EINVAL with a line that says what is allowed. */
int admission_parse(const struct admission_rule *rule, struct rule *ret, struct reason *why);

/* Converts all rules, before the programs are loaded. 0 or an error as above. */
int admission_configure(struct rules *rules, const struct collector_options *options,
			struct reason *why);

/* Makes the recorder's process known to the kernel side, once the programs are loaded. 0 or a negative errno. */
int admission_begin(const struct allocsnap_bpf *bpf);

/*
 * Finds the processes that the rules allow and that have no accounting yet. The caller frees *ret. 0 or a
 * negative errno.
 */
int admission_find(const struct allocsnap_bpf *bpf, struct admissible_process **ret, size_t *ret_nr);

#endif
