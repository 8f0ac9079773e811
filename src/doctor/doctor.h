/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_DOCTOR_DOCTOR_H
#define ALLOCSNAP_DOCTOR_DOCTOR_H

/*
 * The doctor's report: a list of findings, made once from a diagnosis and written as text or as JSON. Both show the same
 * findings, so they cannot disagree. In the text the verdict comes first, then the most important areas.
 *
 *	doctor_report.c   from a diagnosis to findings: the words for people and the facts for programs, side by side
 *	finding.h         a finding, and how one is added
 *	doctor_text.c     an area's heading and the form of its lines
 *	doctor_json.c     an area's place in the object and the keys of its findings
 */

#include <stdbool.h>
#include <stdio.h>

struct diagnosis;
struct doctor_report;

/* The report borrows texts from the diagnosis, which must outlive it. NULL: no memory. */
struct doctor_report *doctor_report__new(const struct diagnosis *diagnosis);
void doctor_report__free(struct doctor_report *report); /* NULL is allowed */

/*
 * Return 0 or a negative errno. The text leaves out lists of probes and files, checks that are good, and what is true of
 * nearly every process, unless it is verbose.
 */
int doctor_text(FILE *out, const struct doctor_report *report, bool verbose);
int doctor_json(FILE *out, const struct doctor_report *report);

/* Writes only what an injected sampler would take over, in all detail. 0 or a negative errno. */
int doctor_put_injection(FILE *out, const struct diagnosis *diagnosis);

#endif
