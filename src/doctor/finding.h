/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_DOCTOR_FINDING_H
#define ALLOCSNAP_DOCTOR_FINDING_H

/* A finding of the doctor. To report another thing, add a finding in doctor_report.c: both renderers show it. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In the order of the text. */
enum finding_area {
	AREA_PROCESS,  /* one finding: whether the process can be recorded */
	AREA_IDENTITY, /* what the process is */
	AREA_NOTES,    /* what attach would log */
	AREA_UNSEEN,   /* blind spots */
	AREA_ALLOCATORS,
	AREA_PROBES,
	AREA_INJECTION,		/* an allocator into which a sampler could be injected */
	AREA_INJECTION_REFUSED, /* or one finding: why none could */
	AREA_INJECTED,		/* a function that the sampler would take over */
	AREA_FILES,
	AREA_MACHINE, /* one finding: whether the machine can record */
	AREA_CHECKS,
	AREA_NR,
};

enum verdict {
	VERDICT_GOOD,
	VERDICT_COSTS, /* recording works, at a price or with a small gap */
	VERDICT_UNKNOWN,
	VERDICT_BAD,
};

struct finding {
	enum finding_area area;
	enum verdict verdict;
	const char *subject; /* a check, a function, a file, …; borrowed */
	char *text;	     /* one line for people; "": only the facts count */
	bool is_detail;	     /* shown on request only */
	const char *todo;    /* what the user can do about it, or NULL; borrowed */
	json_t *facts;	     /* an object: what programs can read of it */
};

struct doctor_report {
	struct finding *finding;
	size_t finding_nr, finding_alloc;
	int err; /* the first error; later calls do nothing */
};

__attribute__((format(printf, 5, 6)))
void add_finding(struct doctor_report *report, enum finding_area area, const char *subject, enum verdict verdict,
		 const char *fmt, ...);

/* These add to the last finding. A text that is NULL or empty is unknown and left out. A NULL value: no memory. */
void add_text_fact(struct doctor_report *report, const char *key, const char *text);
void add_bool_fact(struct doctor_report *report, const char *key, bool value);
void add_uint_fact(struct doctor_report *report, const char *key, uint64_t value);
void add_json_fact(struct doctor_report *report, const char *key, json_t *value);
void add_detail_mark(struct doctor_report *report); /* the last finding is a detail */
void add_todo(struct doctor_report *report, const char *todo); /* NULL: there is nothing to do */

struct diagnosed_process;

/* Adds the findings of the last three areas before AREA_FILES. */
void add_injection(struct doctor_report *report, const struct diagnosed_process *process);

/* Whether the report is about a process, or only about the machine. */
bool report_has_process(const struct doctor_report *report);

#endif
