// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/recording/collector.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "collect/process/open_file.h"
#include "sandbox/client.h"

/* ---- notes ---- */

void notes_add(struct notes *notes, const char *fmt, ...)
{
	char text[sizeof(((struct reason *)0)->text)], clean[sizeof(text)], *note;
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	note = strdup(clean_text(clean, sizeof(clean), text));
	if (note && array_push(notes, note, note))
		free(note);
}

char *notes_take(struct notes *notes)
{
	char *note;

	if (!notes->note_nr)
		return NULL;
	note = notes->note[0];
	memmove(notes->note, notes->note + 1, --notes->note_nr * sizeof(*notes->note));
	return note;
}

void notes_release(struct notes *notes)
{
	for (size_t i = 0; i < notes->note_nr; i++)
		free(notes->note[i]);
	free(notes->note);
}

/* ---- helpers ---- */

int helpers_open(struct helpers *helpers, bool ejects, struct reason *why)
{
	helpers->parser = parser__open(&(struct parser_options){}, why);
	if (!helpers->parser)
		return -errno;
	helpers->opener = file_opener__new(file_system_ask);
	if (!helpers->opener)
		return reason_set(why, -errno, "cannot start the process that opens files: %s", strerror(errno));
	helpers->link_holder = link_holder__open(ejects);
	if (!helpers->link_holder)
		return reason_set(why, -errno, "cannot start the process that keeps the probes: %s", strerror(errno));
	return 0;
}

int helpers_check(const struct helpers *helpers, struct reason *why)
{
	if (parser__has_ended(helpers->parser))
		return reason_set(why, -EPIPE, "the process that starts the readers of ELF files has ended");
	if (!helpers->link_holder || !link_holder__has_ended(helpers->link_holder))
		return 0;
	return reason_set(why, -EPIPE, "the process that keeps the probes has ended");
}

/* ---- collector ---- */

int run_request_program(const struct bpf_program *program, uint32_t slot)
{
	struct process_request request = { .slot = slot };
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &request, .ctx_size_in = sizeof(request));
	int err = bpf_prog_test_run_opts(bpf_program__fd(program), &opts);

	return err ?: (int)opts.retval;
}

/* -ESRCH: the process had ended before it was marked. */
static int clear_marked(struct allocsnap_bpf *bpf, struct books *books, struct target *target)
{
	int err = run_request_program(bpf->progs.process_clear_traces, target->slot);

	books_unmark(books, target->slot);
	if (!err)
		tracebacks_forget(&target->tracebacks);
	return err;
}

/*
 * The loader's half of bpf/account/thread.bpf.h. Each marked target is cleared even after a failure: otherwise
 * its accounting would lack what happened under the mark. Returns 0 or one error; -ESRCH only if there is no
 * other error.
 */
int clear_targets(struct allocsnap_bpf *bpf, struct books *books, struct grace *grace,
			 struct target *const *target, size_t nr)
{
	int err = grace_make(grace);

	if (err)
		return err;
	for (size_t i = 0; i < nr; i++)
		books_mark(books, target[i]->slot);
	err = grace_wait(grace);
	for (size_t i = 0; i < nr; i++) {
		int one = clear_marked(bpf, books, target[i]);

		if (!err || err == -ESRCH)
			err = one ?: err;
	}
	return err;
}

int clear_target_traces(struct collector *collector, struct target *target)
{
	return clear_targets(collector->bpf, &collector->targets.books, &collector->pass.cut.grace, &target, 1);
}
