// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/report_output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_replace.h"
#include "base/reason.h"
#include "cli/cmd_stats.h"
#include "cli/file_owner.h"
#include "render/json_parts.h"
#include "report/pack_report.h"
#include "report/report_data.h"
#include "report/report_page.h"

#define FILE_BYTES_MAX 1500000 /* of the whole page: it goes into mails and tickets */

int report_facts_init(struct report_facts *facts, const struct select_options *select)
{
	*facts = (struct report_facts){ .select = select, .question = json_object(), .warnings = json_array() };
	return facts->question && facts->warnings ? EXIT_DONE : log_failure("out of memory");
}

void report_facts_release(struct report_facts *facts)
{
	json_decref(facts->question);
	json_decref(facts->warnings);
}

int report_warn(struct report_facts *facts, const char *line)
{
	log_cut("%s%s", strncmp(line, "hint: ", 6) ? "warning: " : "", line);
	return json_array_append_new(facts->warnings, json_clean_string(line)) ? -ENOMEM : 0;
}

int report_output_check(const struct command *command, const char *output)
{
	if (!output)
		return log_refusal(command, "-o OUT is missing: the file to write, - for stdout");
	if (!strcmp(output, "-") && isatty(STDOUT_FILENO))
		return log_refusal(command, "a page is not for a terminal; write it to a file");
	return EXIT_DONE;
}

static int set_question(const struct report_facts *facts, json_t *head)
{
	char *filters = select_text(facts->select);
	json_t *list = json_array();
	int err = filters || !errno ? 0 : -ENOMEM;

	if (!err && filters && json_array_append_new(list, json_clean_string(filters)))
		err = -ENOMEM;
	free(filters);
	list = json_unless(err, list);
	err = json_set(facts->question, "kind", json_clean_string(facts->kind)) ?:
	      json_set(facts->question, "filters", list) ?:
	      json_set(facts->question, "given", json_count(facts->given_nr)) ?:
	      json_set(head, "schema", json_string("allocsnap.report/1")) ?:
	      json_set(head, "allocsnap", json_string(ALLOCSNAP_VERSION));
	return err ?: json_set(head, "question", json_incref(facts->question)) ?:
	       json_set(head, "warnings", json_incref(facts->warnings));
}

static void tell_what_is_left_out(const struct report_facts *facts, const struct packed_report *packed)
{
	if (facts->shown_nr < facts->given_nr)
		log_info("the report has %zu of %zu snapshots", facts->shown_nr, facts->given_nr);
	if (packed->merged_nr)
		log_info("%" PRIu32 " of %" PRIu32 " tracebacks are so small that they are merged, by line; sums of lines "
			 "are exact, cumulative sums of callers are without them", packed->merged_nr, packed->merged_of);
	if (packed->small_site_nr)
		log_info("%" PRIu32 " of %" PRIu32 " sites are so small that they are merged into one; the sum of all is exact",
			 packed->small_site_nr, packed->site_of);
	if (packed->bytes_nr > packed->bytes_max)
		log_info("the page is larger than %.1f MB: its names are long", FILE_BYTES_MAX / 1e6);
	if (facts->newer_nr)
		log_info("--source: %zu file%s changed since the recording began, and left out", facts->newer_nr,
			 facts->newer_nr == 1 ? " was" : "s were");
}

static int write_packed_page(FILE *out, const void *what)
{
	const struct packed_report *packed = what;

	return report_page_write(out, packed->bytes, packed->bytes_nr);
}

static int write_packed(const char *output, const struct packed_report *packed)
{
	struct snapshot_file_owner chosen = choose_file_owner(output);
	const struct file_owner owner = { chosen.uid, chosen.gid };
	struct reason why = { "out of memory" };
	int err;

	if (!strcmp(output, "-")) {
		err = write_packed_page(stdout, packed);
		if (!err && fflush(stdout))
			err = -errno;
		return report_write_error(err);
	}
	if (file_replace_for(output, chosen.is_set ? &owner : NULL, write_packed_page, packed, &why))
		return log_failure("%s", why.text);
	return EXIT_DONE;
}

int report_output_write(const char *output, struct report_data *data, const struct report_facts *facts)
{
	size_t bytes_max = (FILE_BYTES_MAX - report_page_len()) / 4 * 3;
	struct packed_report packed = {};
	int err = set_question(facts, data->head) ?: pack_report(data, bytes_max, &packed), status;

	if (err)
		return log_failure("%s", strerror(-err));
	tell_what_is_left_out(facts, &packed);
	status = write_packed(output, &packed);
	packed_report_release(&packed);
	return status;
}
