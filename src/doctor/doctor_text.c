// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "doctor/doctor.h"

#include "doctor/finding.h"
#include "render/clean.h"

#define NAME_WIDTH 12
#define CHECK_WIDTH 26

static int put_verdict(FILE *out, const struct finding *finding)
{
	return put_toned_line(out, finding->verdict == VERDICT_BAD ? TONE_ALARM : TONE_HEAD, "%s", finding->text);
}

static int put_named_finding(FILE *out, const struct finding *finding)
{
	return put_line(out, "  %-*s %s", NAME_WIDTH, finding->subject, finding->text);
}

static int put_item(FILE *out, const struct finding *finding)
{
	int err = put_line(out, "  %s", finding->text);

	if (!err && finding->todo)
		err = put_line(out, "      to do: %s", finding->todo);
	return err;
}

static int put_check(FILE *out, const struct finding *finding)
{
	static const char *const mark[] = {
		[VERDICT_GOOD] = "ok", [VERDICT_COSTS] = "costs", [VERDICT_UNKNOWN] = "unknown",
		[VERDICT_BAD] = "NO",
	};

	return put_toned_line(out, finding->verdict == VERDICT_BAD ? TONE_ALARM : TONE_PLAIN,
			      "  %-7s %-*s %s", mark[finding->verdict], CHECK_WIDTH, finding->subject,
			finding->text);
}

static const struct {
	int (*put)(FILE *out, const struct finding *finding);
	const char *heading; /* above the area's findings, or NULL */
	bool is_detail;	     /* shown on request only */
} areas[AREA_NR] = {
	[AREA_PROCESS] = { put_verdict },
	[AREA_IDENTITY] = { put_named_finding },
	[AREA_NOTES] = { put_named_finding },
	[AREA_UNSEEN] = { put_item, "would not be seen" },
	[AREA_ALLOCATORS] = { put_item, "allocators" },
	[AREA_PROBES] = { put_item, "probes", true },
	[AREA_INJECTION] = { put_item, "attach --inject would take over (threads are checked when they are stopped)" },
	[AREA_INJECTION_REFUSED] = { put_item, "attach --inject would be refused" },
	[AREA_INJECTED] = { put_item, "functions that attach --inject would take over", true },
	[AREA_FILES] = { put_item, "files with code", true },
	[AREA_MACHINE] = { put_verdict },
	[AREA_CHECKS] = { put_check },
};

static bool is_detail(const struct finding *finding)
{
	return finding->is_detail || areas[finding->area].is_detail ||
	       (finding->area == AREA_CHECKS && finding->verdict == VERDICT_GOOD);
}

int doctor_text(FILE *out, const struct doctor_report *report, bool verbose)
{
	enum finding_area area = AREA_NR;
	int err = 0;

	for (size_t i = 0; i < report->finding_nr && !err; i++) {
		const struct finding *finding = &report->finding[i];

		if (!*finding->text || (is_detail(finding) && !verbose))
			continue;
		if (finding->area != area && areas[finding->area].heading)
			err = put_toned_line(out, TONE_HEAD, "%s", areas[finding->area].heading);
		area = finding->area;
		err = err ?: areas[area].put(out, finding);
	}
	return err;
}
