// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * injector plan|inject|eject|find PID [INTERVAL]: the functions of collect/inject on the command line. It prints what
 * they return, as lines "word value…"; a failure is "refused ERRNO LINE" and exit status 1.
 *
 * DIE_AT=N: it is killed at the Nth moment. COUNT_MOMENTS=1: it prints how many there were.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/reason.h"
#include "collect/inject/inject.h"
#include "sandbox/client.h"

extern void (*inject_moment)(const char *what);

static int moment_nr, die_at;

static void pass_or_die(const char *what)
{
	if (++moment_nr != die_at)
		return;
	fprintf(stderr, "killed at moment %d: %s\n", moment_nr, what);
	kill(getpid(), SIGKILL);
}

static void print_times(const struct inject_times *times)
{
	printf("times %" PRIu64 " ns, %u threads, %u tries\n", times->stopped_ns, times->thread_nr, times->tries);
}

static void print_plan(const struct inject_plan *plan)
{
	for (uint32_t i = 0; i < plan->allocator_nr; i++) {
		const struct inject_allocator *allocator = &plan->allocator[i];

		printf("allocator %s domain %u pages %u start %#" PRIx64 " end %#" PRIx64 " unseen %d\n", allocator->path,
		       allocator->domain, allocator->page_nr, allocator->start, allocator->end, allocator->has_unseen_new);
		for (uint32_t k = 0; k < allocator->function_nr; k++)
			printf("function %s %#" PRIx64 " bytes %u insns %u probed %d\n", allocator->function[k].name,
			       allocator->function[k].address, allocator->function[k].moved_bytes,
			       allocator->function[k].moved_nr, allocator->function[k].is_probed);
	}
}

static int plan_and_inject(pid_t pid, bool injects, uint64_t interval, struct reason *why)
{
	struct parser *parser = parser__open(&(struct parser_options){}, why);
	struct inject_plan *plan = NULL;
	struct inject_times times = {};
	int err = parser ? inject_plan_make(parser, pid, &plan, why) : -errno;

	if (!err && injects)
		err = inject_execute(plan, &(struct inject_options){ .interval = interval }, &times, why);
	if (!err)
		print_plan(plan);
	if (!err && injects)
		print_times(&times);
	inject_plan_free(plan);
	parser__close(parser);
	return err;
}

static int eject(pid_t pid, struct reason *why)
{
	struct eject_result result;
	int err = inject_eject(pid, 0, &result, why);

	if (err)
		return err;
	printf("ejected %u functions, kept %u\n", result.function_nr, result.kept_nr);
	print_times(&result.times);
	return 0;
}

static int find(pid_t pid, struct reason *why)
{
	struct inject_found found;
	int err = inject_find(pid, &found, why);

	if (err)
		return err;
	printf("found version %u allocators %u active %d owner %d running %d interval %" PRIu64 " functions %u\n",
	       found.version, found.allocator_nr, found.is_active, found.owner, found.owner_is_running, found.interval,
	       found.function_nr);
	return 0;
}

int main(int argc, char **argv)
{
	struct reason why = {};
	pid_t pid = argc > 2 ? atoi(argv[2]) : 0;
	uint64_t interval = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;
	int err = -EINVAL;

	die_at = getenv("DIE_AT") ? atoi(getenv("DIE_AT")) : 0;
	inject_moment = pass_or_die;
	if (argc > 2 && !strcmp(argv[1], "plan"))
		err = plan_and_inject(pid, false, 0, &why);
	else if (argc > 2 && !strcmp(argv[1], "inject"))
		err = plan_and_inject(pid, true, interval, &why);
	else if (argc > 2 && !strcmp(argv[1], "eject"))
		err = eject(pid, &why);
	else if (argc > 2 && !strcmp(argv[1], "find"))
		err = find(pid, &why);
	if (getenv("COUNT_MOMENTS"))
		printf("moments %d\n", moment_nr);
	if (!err)
		return 0;
	printf("refused %s %s\n", strerrorname_np(-err), why.text);
	return 1;
}
