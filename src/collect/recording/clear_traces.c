// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/recording/clear_traces.h"

#include <bpf/bpf.h>
#include <errno.h>

#include "collect/recording/collector.h"

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
