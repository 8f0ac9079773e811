/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_DOCTOR_H
#define ALLOCSNAP_DOCTOR_H

/* Write a diagnosis: the verdict first, then the most important parts. Return 0 or a negative errno. */

#include <stdio.h>

struct diagnosis;

int doctor_text(FILE *out, const struct diagnosis *diagnosis);
int doctor_json(FILE *out, const struct diagnosis *diagnosis);

#endif
