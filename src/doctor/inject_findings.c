// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whether attach --inject would work, and what it would do. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "collect/diagnosis/diagnosis.h"
#include "collect/inject/inject.h"
#include "doctor/doctor.h"
#include "doctor/finding.h"
#include "elf/allocators.h"

static void add_injected_function(struct doctor_report *report, const struct inject_allocator *allocator,
				  const struct inject_function *function)
{
	add_finding(report, AREA_INJECTED, function->name, function->is_probed ? VERDICT_COSTS : VERDICT_GOOD,
		    "%s (%s) at 0x%" PRIx64 ": a jump in place of %" PRIu32 " instruction%s, %" PRIu32 " bytes%s", function->name,
		    allocator->path, function->address, function->moved_nr, function->moved_nr == 1 ? "" : "s",
		    function->moved_bytes,
		    function->is_probed ? "; the breakpoint of another program there will not see this process meanwhile" : "");
	add_text_fact(report, "object", allocator->path);
	add_uint_fact(report, "address", function->address);
	add_uint_fact(report, "moved_bytes", function->moved_bytes);
	add_uint_fact(report, "moved_instructions", function->moved_nr);
	add_bool_fact(report, "is_probed", function->is_probed);
}

static void add_injected_allocator(struct doctor_report *report, const struct inject_allocator *allocator)
{
	const char *name = allocator->domain ? domain_name(allocator->domain) : allocator_of(allocator->path)->name;

	add_finding(report, AREA_INJECTION, name, VERDICT_GOOD, "%s: %" PRIu32 " function%s of %s, on %" PRIu32 " page%s%s", name,
		    allocator->function_nr, allocator->function_nr == 1 ? "" : "s", allocator->path, allocator->page_nr,
		    allocator->page_nr == 1 ? "" : "s",
		    allocator->has_unseen_new ? "; not its own operator new, mallocx and the like" : "");
	add_text_fact(report, "object", allocator->path);
	add_uint_fact(report, "functions", allocator->function_nr);
	add_uint_fact(report, "pages", allocator->page_nr);
	add_bool_fact(report, "has_unseen_functions", allocator->has_unseen_new);
}

void add_injection(struct doctor_report *report, const struct diagnosed_process *process)
{
	const struct inject_plan *plan = process->injection;

	if (!plan) {
		add_finding(report, AREA_INJECTION_REFUSED, "injection", VERDICT_COSTS, "%s", process->not_injected.text);
		add_text_fact(report, "injection_refused", process->not_injected.text);
		return;
	}
	for (uint32_t i = 0; i < plan->allocator_nr; i++)
		add_injected_allocator(report, &plan->allocator[i]);
	for (uint32_t i = 0; i < plan->allocator_nr; i++)
		for (uint32_t j = 0; j < plan->allocator[i].function_nr; j++)
			add_injected_function(report, &plan->allocator[i], &plan->allocator[i].function[j]);
}

int doctor_put_injection(FILE *out, const struct diagnosis *diagnosis)
{
	struct doctor_report *report = calloc(1, sizeof(*report));
	int err;

	if (!report)
		return -ENOMEM;
	add_injection(report, &diagnosis->process);
	err = report->err ?: doctor_text(out, report, true);
	doctor_report__free(report);
	return err;
}
