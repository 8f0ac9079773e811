// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* allocsnap eject: takes samplers out of processes that recordings have left in them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/reason.h"
#include "cli/cmd.h"
#include "cli/find_running_process.h"
#include "inject/inject.h"

extern const struct command cmd_eject;

static const char *thing_of(const struct inject_found *found)
{
	return found->kind != INJECT_SAMPLER ? "hooks of an exact recording" : "sampler";
}

static int report_ejection(pid_t pid, const struct inject_found *found, const struct eject_result *result)
{
	if (result->function_nr)
		printf("took the %s out of process %d: %" PRIu32 " function%s, threads stopped for %.1f ms\n", thing_of(found), pid,
		       result->function_nr, result->function_nr == 1 ? "" : "s", result->times.stopped_ns / 1e6);
	else
		printf("process %d: its allocators have called no %s\n", pid, thing_of(found));
	if (result->kept_nr)
		printf("its code stays mapped and is not called: a thread may still return to it\n");
	return result->kept_nr ? EXIT_FAILED : EXIT_DONE;
}

static int eject_from(pid_t pid)
{
	struct eject_result result = {};
	struct inject_found found;
	struct reason why = {};
	int err = inject_find(pid, &found, &why);

	if (err == -ENOENT)
		return log_failure("process %d has no injected sampler, and no hooks", pid);
	if (!err && found.is_active && found.owner_is_running)
		return log_failure("process %d is being recorded: the %s belong%s to process %d, and go%s when that ends", pid,
				   thing_of(&found), found.kind != INJECT_SAMPLER ? "" : "s", found.owner,
				   found.kind != INJECT_SAMPLER ? "" : "es");
	err = err ?: inject_eject(pid, 0, 0, &result, &why);
	return err ? log_failure("cannot take the %s out of process %d: %s", thing_of(&found), pid, why.text) :
		     report_ejection(pid, &found, &result);
}

static int run(const void *command_options, const struct arguments *args)
{
	int status = EXIT_DONE;
	pid_t pid;

	(void)command_options;
	for (size_t i = 0; i < args->item_nr; i++)
		status = (find_running_process(args->item[i], &pid) ?: eject_from(pid)) ?: status;
	return status;
}

const struct command cmd_eject = {
	.name = "eject",
	.args = "PID|NAME…",
	.arg_min = 1,
	.arg_max = UINT_MAX,
	.help = "take out of a process the sampler, or the hooks, that a killed recording has left in it",
	.detail = "attach --inject and leaks --inject take their sampler out themselves, also when they are killed, and so do "
		  "--inject=exact and run --exact with their hooks. Only if the process of allocsnap that keeps the probes is "
		  "killed, too, these stay. Then a sampler counts bytes, and hooks only pass on or write books that nobody reads, "
		  "until eject. Forked children have them as well.\n\n"
		  "What belongs to a recording that goes on is left alone.\n",
	.example = "sudo allocsnap eject 4711",
	.run = run,
};
