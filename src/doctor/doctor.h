/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_DOCTOR_DOCTOR_H
#define ALLOCSNAP_DOCTOR_DOCTOR_H

/*
 * Writes a diagnosis as text or as JSON. In the text the verdict comes first, then the most important parts. Text
 * leaves out lists of probes and files, checks that are good, and what is true of nearly every process, unless it is
 * verbose. To report another thing, emit it where its part is: text and JSON are side by side.
 */

#include <stdbool.h>
#include <stdio.h>

struct diagnosis;

/* Return 0 or a negative errno. */
int doctor_put(FILE *file, const struct diagnosis *diagnosis, bool is_verbose, bool is_json);

/* Only what an injected sampler would take over, as text, in all detail. */
int doctor_put_injection(FILE *file, const struct diagnosis *diagnosis);

#endif
