// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "doctor/finding.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "doctor/doctor.h"
#include "render/json_parts.h"

static void release_finding(struct finding *finding)
{
	free(finding->text);
	json_decref(finding->facts);
}

void add_finding(struct doctor_report *report, enum finding_area area, const char *subject, enum verdict verdict,
		 const char *fmt, ...)
{
	struct finding finding = {
		.area = area, .subject = subject, .verdict = verdict, .facts = json_object(),
	};
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&finding.text, fmt, args) < 0)
		finding.text = NULL;
	va_end(args);
	if (!report->err)
		report->err = finding.text && finding.facts ? array_push(report, finding, finding) : -ENOMEM;
	if (report->err)
		release_finding(&finding);
}

/* Not to be called after an error: the last finding may be an earlier one then. */
static struct finding *last_finding(const struct doctor_report *report)
{
	return &report->finding[report->finding_nr - 1];
}

void add_json_fact(struct doctor_report *report, const char *key, json_t *value)
{
	if (report->err)
		json_decref(value);
	else
		report->err = json_set(last_finding(report)->facts, key, value);
}

void add_text_fact(struct doctor_report *report, const char *key, const char *text)
{
	if (text && *text)
		add_json_fact(report, key, json_clean_string(text));
}

void add_bool_fact(struct doctor_report *report, const char *key, bool value)
{
	add_json_fact(report, key, json_boolean(value));
}

void add_uint_fact(struct doctor_report *report, const char *key, uint64_t value)
{
	if (!report->err)
		report->err = json_set_uint(last_finding(report)->facts, key, value);
}

void add_detail_mark(struct doctor_report *report)
{
	if (!report->err)
		last_finding(report)->is_detail = true;
}

void add_todo(struct doctor_report *report, const char *todo)
{
	if (!report->err)
		last_finding(report)->todo = todo;
}

bool report_has_process(const struct doctor_report *report)
{
	return report->finding_nr && report->finding[0].area == AREA_PROCESS;
}

void doctor_report__free(struct doctor_report *report)
{
	if (!report)
		return;
	for (size_t i = 0; i < report->finding_nr; i++)
		release_finding(&report->finding[i]);
	free(report->finding);
	free(report);
}
