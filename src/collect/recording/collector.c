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
#include "collect/bpf.h"
#include "helper/helper.h"
#include "process/open_file.h"
#include "sandbox/client.h"
#include "shared/links_state.h"

/* ---- notes ---- */

void notes_add(struct notes *notes, const char *fmt, ...)
{
	char text[sizeof(((struct reason *)0)->text)], clean[sizeof(text)], *note;
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	note = strdup(clean_text(clean, sizeof(clean), text));
	if (note && !array_push(notes, note, note))
		return;
	free(note);
	notes->lacks_some = true;
}

char *notes_take(struct notes *notes)
{
	char *note;

	if (!notes->note_nr) {
		note = notes->lacks_some ? strdup("out of memory: a line is missing here") : NULL;
		notes->lacks_some &= !note;
		return note;
	}
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

static int file_system_ask(int program_fd, struct file_system *asked)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = asked, .ctx_size_in = sizeof(*asked));
	int err = program_fd < 0 ? -EBADF : bpf_prog_test_run_opts(program_fd, &opts);

	return err ?: (int)opts.retval;
}

/* ---- helpers ---- */

int helpers_open(struct helpers *helpers, bool ejects, struct reason *why)
{
	helpers->sandbox = sandbox__open(&(struct sandbox_options){}, why);
	if (!helpers->sandbox)
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
	if (helper__has_ended(sandbox__helper(helpers->sandbox)))
		return reason_set(why, -EPIPE, "the process that starts the readers of ELF files has ended");
	if (!helpers->link_holder || !helper__has_ended(link_holder__helper(helpers->link_holder)))
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
static int clear_marked(struct allocsnap_bpf *bpf, struct accounts *accounts, struct target *target)
{
	int err = run_request_program(bpf->progs.process_clear_traces, target->slot);

	accounts_unmark(accounts, target->slot);
	if (!err)
		tracebacks_forget(&target->tracebacks);
	return err;
}

/*
 * The loader's half of bpf/account/thread.bpf.h. Each marked target is cleared even after a failure: otherwise
 * its accounting would lack what happened under the mark. Returns 0 or one error; -ESRCH only if there is no
 * other error.
 */
int clear_targets(struct allocsnap_bpf *bpf, struct accounts *accounts, struct grace *grace,
			 struct target *const *target, size_t nr)
{
	int err = grace_make(grace);

	if (err)
		return err;
	for (size_t i = 0; i < nr; i++)
		accounts_mark(accounts, target[i]->slot);
	err = grace_wait(grace);
	for (size_t i = 0; i < nr; i++) {
		int one = clear_marked(bpf, accounts, target[i]);

		if (!err || err == -ESRCH)
			err = one ?: err;
	}
	return err;
}

int clear_target_traces(struct collector *collector, struct target *target)
{
	return clear_targets(collector->bpf, &collector->targets.accounts, &collector->pass.cut.grace, &target, 1);
}

/* ---- targets ---- */

int targets_open(struct targets *targets, const struct allocsnap_bpf *bpf)
{
	targets->new_child = calloc(PROCESSES_MAX, sizeof(*targets->new_child));
	return targets->new_child ? accounts_open(&targets->accounts, bpf) : -ENOMEM;
}

void targets_release(struct targets *targets)
{
	free(targets->target);
	accounts_close(&targets->accounts);
	free(targets->by_pid);
	free(targets->new_child);
}

const struct process *account_of(const struct targets *targets, uint32_t slot)
{
	return &targets->accounts.process[slot];
}

/* ---- by PID ---- */

static size_t place_of_pid(const struct targets *targets, pid_t pid)
{
	return (uint32_t)pid * 2654435761u & (targets->by_pid_nr - 1);
}

/* Several targets may have had the PID, one after another: enters the latest. */
static void enter_pid(struct targets *targets, struct target *target)
{
	size_t at = place_of_pid(targets, target->identity.pid);

	while (targets->by_pid[at] && targets->by_pid[at]->identity.pid != target->identity.pid)
		at = (at + 1) & (targets->by_pid_nr - 1);
	if (!targets->by_pid[at] || targets->by_pid[at]->life.started_ns < target->life.started_ns)
		targets->by_pid[at] = target;
}

/* Enters all targets anew, with room for one more; at most half of the table is used. 0 or -ENOMEM. */
static int rebuild_pid_table(struct targets *targets)
{
	size_t nr = 64;

	while (nr < 2 * (targets->target_nr + 1))
		nr *= 2;
	if (nr != targets->by_pid_nr) {
		struct target **by_pid = realloc(targets->by_pid, nr * sizeof(*by_pid));

		if (!by_pid)
			return -ENOMEM;
		targets->by_pid = by_pid;
		targets->by_pid_nr = nr;
	}
	memset(targets->by_pid, 0, nr * sizeof(*targets->by_pid));
	for (size_t i = 0; i < targets->target_nr; i++)
		enter_pid(targets, targets->target[i]);
	return 0;
}

struct target *find_target(const struct targets *targets, pid_t pid)
{
	size_t at = targets->by_pid_nr ? place_of_pid(targets, pid) : 0;

	if (!targets->by_pid_nr)
		return NULL;
	while (targets->by_pid[at] && targets->by_pid[at]->identity.pid != pid)
		at = (at + 1) & (targets->by_pid_nr - 1);
	return targets->by_pid[at];
}

/* ---- coming and going ---- */

int targets_add(struct targets *targets, struct target *target)
{
	int err = rebuild_pid_table(targets) ?: array_push(targets, target, target);
	if (err)
		return err;
	enter_pid(targets, target);
	targets->by_slot[target->slot] = target;
	return 0;
}

struct target *targets_take_out(struct targets *targets, size_t i)
{
	struct target *target = targets->target[i];

	memmove(targets->target + i, targets->target + i + 1, (--targets->target_nr - i) * sizeof(*targets->target));
	rebuild_pid_table(targets); /* cannot fail: there is room */
	return target;
}

unsigned int targets_beside_nr(const struct targets *targets)
{
	unsigned int nr = 0;

	for (size_t i = 0; i < targets->target_nr; i++)
		nr += targets->target[i]->probes.beside.link_nr && !targets->target[i]->life.has_ended;
	return nr;
}

void targets_close(struct targets *targets, struct target *target)
{
	probes_close(&target->probes.own); /* first: late writes must not hit the slot's next owner */
	probes_close(&target->probes.beside);
	if (target->slot != ACCOUNT_NONE && targets->by_slot[target->slot] == target)
		targets->by_slot[target->slot] = NULL;
	accounts_end(&targets->accounts, target->slot);
	target__free(target);
}

bool links_are_own(const struct collector *collector)
{
	enum links_phase phase = LINKS_PHASE(collector->bpf->bss->links_state);

	return phase == LINKS_TO_OWN || phase == LINKS_OWN;
}
