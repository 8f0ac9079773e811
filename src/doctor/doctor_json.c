// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "doctor/doctor.h"

#include <errno.h>

#include "doctor/finding.h"
#include "render/json_parts.h"

static const struct area {
	bool is_machine;	 /* in the object "machine", otherwise in "process" */
	const char *list;	 /* the findings are items of this list; NULL: their facts are members of the object */
	bool is_text;		 /* the items are the texts alone */
	const char *subject_key, *state_key, *text_key; /* or NULL */
	const char *good_key, *bad_key; /* true if the verdict is good, or is bad; or NULL */
} areas[AREA_NR] = {
	[AREA_PROCESS] = { .good_key = "records" },
	[AREA_IDENTITY] = {},
	[AREA_NOTES] = { .list = "notes", .is_text = true },
	[AREA_UNSEEN] = { .list = "unseen", .subject_key = "name", .bad_key = "grave" },
	[AREA_ALLOCATORS] = { .list = "allocators", .subject_key = "name" },
	[AREA_PROBES] = { .list = "probes", .subject_key = "function", .good_key = "placed" },
	[AREA_INJECTION] = { .list = "injection", .subject_key = "name" },
	[AREA_INJECTION_REFUSED] = {},
	[AREA_INJECTED] = { .list = "injected_functions", .subject_key = "function" },
	[AREA_FILES] = { .list = "files", .subject_key = "path" },
	[AREA_MACHINE] = { .is_machine = true, .good_key = "records" },
	[AREA_CHECKS] = { .is_machine = true, .list = "checks", .subject_key = "name", .state_key = "state",
			  .text_key = "found" },
};

/* Adds a finding's members to an object. */
static int set_members(json_t *object, const struct finding *finding)
{
	static const char *const state[] = {
		[VERDICT_GOOD] = "ok", [VERDICT_COSTS] = "costs", [VERDICT_UNKNOWN] = "unknown",
		[VERDICT_BAD] = "no",
	};
	const struct area *area = &areas[finding->area];
	int err = 0;

	if (area->subject_key)
		err = json_set_text(object, area->subject_key, finding->subject);
	if (area->state_key)
		err = err ?: json_set_text(object, area->state_key, state[finding->verdict]);
	if (area->text_key)
		err = err ?: json_set_text(object, area->text_key, finding->text);
	if (area->good_key)
		err = err ?: json_set(object, area->good_key, json_boolean(finding->verdict == VERDICT_GOOD));
	if (area->bad_key)
		err = err ?: json_set(object, area->bad_key, json_boolean(finding->verdict == VERDICT_BAD));
	if (finding->todo)
		err = err ?: json_set_text(object, "todo", finding->todo);
	return err ?: json_object_update(object, finding->facts) ? -ENOMEM : 0;
}

static json_t *finding_json(const struct finding *finding)
{
	json_t *item;

	if (areas[finding->area].is_text)
		return json_clean_string(finding->text);
	item = json_object();
	return json_unless(set_members(item, finding), item);
}

static json_t *list_json(const struct doctor_report *report, enum finding_area area)
{
	json_t *list = json_array();
	int err = 0;

	for (size_t i = 0; i < report->finding_nr && !err; i++)
		if (report->finding[i].area == area)
			err = json_array_append_new(list, finding_json(&report->finding[i]));
	return json_unless(err, list);
}

/* Returns the object with the findings of the machine, or with those of the process. */
static json_t *part_json(const struct doctor_report *report, bool is_machine)
{
	json_t *object = json_object();
	int err = 0;

	for (size_t i = 0; i < report->finding_nr && !err; i++) {
		const struct area *area = &areas[report->finding[i].area];

		if (area->is_machine == is_machine && !area->list)
			err = set_members(object, &report->finding[i]);
	}
	for (enum finding_area i = 0; i < AREA_NR && !err; i++)
		if (areas[i].is_machine == is_machine && areas[i].list)
			err = json_set(object, areas[i].list, list_json(report, i));
	return json_unless(err, object);
}

/* Whether everything that was asked for can be recorded. */
static bool is_good(const struct doctor_report *report)
{
	for (size_t i = 0; i < report->finding_nr; i++)
		if (areas[report->finding[i].area].good_key && !areas[report->finding[i].area].list &&
		    report->finding[i].verdict != VERDICT_GOOD)
			return false;
	return true;
}

int doctor_json(FILE *out, const struct doctor_report *report)
{
	json_t *object = json_object();
	int err = json_set_text(object, "schema", "allocsnap.doctor/1");

	err = err ?: json_set(object, "records", json_boolean(is_good(report)));
	err = err ?: json_set(object, "machine", part_json(report, true));
	if (report_has_process(report))
		err = err ?: json_set(object, "process", part_json(report, false));
	err = json_put(out, json_unless(err, object), 0);
	if (!err && putc('\n', out) < 0)
		err = -errno ?: -EIO;
	return err;
}
