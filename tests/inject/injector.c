// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * injector plan|inject|eject|find PID [INTERVAL]: the functions of inject on the command line. It prints what
 * they return, as lines "word value…"; a failure is "refused ERRNO LINE" and exit status 1.
 *
 * injector cycles PID NR: injects, listens as a recorder would (the semaphores, but no probes), and ejects, NR times. A refusal
 * for the moment is tried again, NR + 100 times in all, or AGAIN=N times. INTERVAL=N
 * (5000) is the interval.
 *
 * injector tries PID NR: the same, and each refusal counts as one of the NR. It prints how many there were, and the last one.
 *
 * injector serve PID INTERVAL: for each line "inject N" or "eject N" on stdin a child does that, and is killed at the Nth
 * moment (0: at none). It prints "killed", or what the child has printed. All follow one plan.
 *
 * injector hooks|hook-cycles|hook-serve PID [NR]: the same with the hooks of an exact recording, in a CPython.
 * injector late-hooks PID: waits for a line on stdin between looking and injecting. injector words PID: what the pointers
 * in the tables of its allocators are. injector books PID START END DEV INODE SLOT INSIDE: visits the books (python_target.h).
 *
 * EXACT=1: hooks of an exact recording of the heap in place of the sampler, with books that no recorder reads.
 * TRIES=N: a refusal for the moment (EAGAIN) is tried again, up to N times. OWNER=PID: in place of this process.
 * TIMES=1: the times of an ejection that is refused, too.
 * DIE_AT=N: it is killed at the Nth moment, together with the child that does the work; DIE_AT=NAME: at the first one of this
 * name; CHILD=1: only the child. COUNT_MOMENTS=1: it prints how many there were.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/reason.h"
#include "inject/inject.h"
#include "inject/injected_file.h"
#include "python_target.h"
#include "sandbox/client.h"

#define CYCLES_OF_PLAN 10

extern void (*inject_moment)(const char *what);

static int *moment_nr; /* shared with the child that does the work */
static int die_at;
static const char *die_at_name = "";
static pid_t owner; /* OWNER=PID */
static bool is_exact; /* EXACT=1 */

static void pass_or_die(const char *what)
{
	if (++*moment_nr != die_at && strcmp(what, die_at_name))
		return;
	fprintf(stderr, "killed at moment %d: %s\n", *moment_nr, what);
	if (!getenv("CHILD"))
		kill(getppid(), SIGKILL);
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

static int plan_and_inject_once(struct sandbox *sandbox, pid_t pid, bool injects, uint64_t interval, struct reason *why)
{
	struct inject_plan *plan = NULL;
	struct inject_times times = {};
	int err = inject_plan_make(sandbox, pid, &plan, why);

	if (!err && injects)
		err = inject_execute(plan, &(struct inject_options){ .interval = interval, .owner = owner, .is_exact = is_exact }, NULL,
				     &times, why);
	if (!err)
		print_plan(plan);
	if (!err && injects)
		print_times(&times);
	inject_plan_free(plan);
	return err;
}

/* A loaded machine may not stop the threads in time. */
static bool tries_again(int err)
{
	static int left = -1;

	if (left < 0)
		left = getenv("TRIES") ? atoi(getenv("TRIES")) : 0;
	if (err != -EAGAIN || left <= 0)
		return false;
	left--;
	usleep(50000);
	return true;
}

static int plan_and_inject(pid_t pid, bool injects, uint64_t interval, struct reason *why)
{
	struct sandbox *sandbox = sandbox__open(&(struct sandbox_options){}, why);
	int err;

	if (!sandbox)
		return -errno;
	do {
		err = plan_and_inject_once(sandbox, pid, injects, interval, why);
	} while (tries_again(err));
	sandbox__close(sandbox);
	return err;
}

static int eject(pid_t pid, struct reason *why)
{
	struct eject_result result;
	int err;

	do {
		err = inject_eject(pid, owner, 0, &result, why);
	} while (tries_again(err));
	if (err && getenv("TIMES"))
		print_times(&result.times);
	if (err)
		return err;
	printf("ejected %u functions, kept %u\n", result.function_nr, result.kept_nr);
	print_times(&result.times);
	return 0;
}

/* ---- cycles ---- */

/* All samples go the slow way while somebody listens. */
static int change_semaphores(pid_t pid, const struct inject_plan *plan, uint16_t to)
{
	static const char *const name[] = { "otel_memory_alloc_semaphore", "otel_memory_free_semaphore" };
	struct injected_file file;
	char path[64];
	int fd, err = injected_file_open(INJECT_SAMPLER, &file);

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDWR | O_CLOEXEC);
	for (uint32_t i = 0; i < plan->allocator_nr && !err; i++)
		for (int k = 0; k < 2; k++)
			if (pwrite(fd, &to, sizeof(to), plan->allocator[i].start + injected_file_symbol(&file, name[k], NULL)) !=
			    sizeof(to))
				err = -EIO;
	close(fd);
	return err;
}

struct cycle_sums {
	uint64_t stopped_ns, most_ns;
	unsigned int kept, again;
	int done, refused;
	char refusal[sizeof(struct reason) + 16];
};

static void add_times(struct cycle_sums *sums, const struct inject_times *times)
{
	sums->stopped_ns += times->stopped_ns;
	if (times->stopped_ns / times->tries > sums->most_ns)
		sums->most_ns = times->stopped_ns / times->tries;
}

static int run_cycle(pid_t pid, struct inject_plan *plan, struct cycle_sums *sums, struct reason *why)
{
	struct inject_times times;
	struct eject_result result;
	uint64_t interval = strtoull(getenv("INTERVAL") ?: "5000", NULL, 10);
	int err = inject_execute(plan, &(struct inject_options){ .interval = interval, .is_exact = is_exact }, NULL, &times, why);

	if (!err) {
		add_times(sums, &times);
		usleep(1000);
		err = is_exact ? 0 : change_semaphores(pid, plan, 1);
		usleep(3000);
		err = err || is_exact ? err : change_semaphores(pid, plan, 0);
		err = err ?: inject_eject(pid, 0, 0, &result, why);
	}
	if (!err) {
		add_times(sums, &result.times);
		sums->kept += result.kept_nr;
	}
	return err;
}

/* Planning reads files and stops nothing: a plan serves for some cycles. */
static int run_planned_cycles(struct sandbox *sandbox, pid_t pid, int nr, struct cycle_sums *sums, struct reason *why)
{
	struct inject_plan *plan = NULL;
	int err = inject_plan_make(sandbox, pid, &plan, why);

	for (int i = 0; i < CYCLES_OF_PLAN && i < nr && !err; i++) {
		err = run_cycle(pid, plan, sums, why);
		sums->done += !err;
	}
	inject_plan_free(plan);
	return err;
}

/* A refusal that holds for a moment only is tried again, or counts as any other one. */
static int run_cycles(pid_t pid, int nr, bool counts_refusals, struct reason *why)
{
	struct sandbox *sandbox = sandbox__open(&(struct sandbox_options){}, why);
	struct cycle_sums sums = {};
	unsigned int again_max = getenv("AGAIN") ? atoi(getenv("AGAIN")) : 100 + nr;
	int err = sandbox ? 0 : -errno;

	while (sums.done + sums.refused < nr && !err) {
		err = run_planned_cycles(sandbox, pid, nr - sums.done - sums.refused, &sums, why);
		if (err && counts_refusals) {
			sums.refused++;
			snprintf(sums.refusal, sizeof(sums.refusal), " %s %s", strerrorname_np(-err), why->text);
		}
		while ((err == -EAGAIN || (err && counts_refusals)) && ++sums.again < again_max) {
			usleep(1000);
			err = inject_eject(pid, 0, 0, NULL, NULL) == -EAGAIN ? -EAGAIN : 0;
		}
	}
	if (!err)
		printf("cycles %d, %" PRIu64 " us stopped, at most %" PRIu64 " us, kept %u, again %u\n", sums.done,
		       sums.stopped_ns / 1000, sums.most_ns / 1000, sums.kept, sums.again);
	if (!err && counts_refusals)
		printf("refused %d%s\n", sums.refused, sums.refusal);
	sandbox__close(sandbox);
	return err;
}

/* ---- one plan, many injectors ---- */

/* Returns the child's exit status. */
static int obey(pid_t pid, struct inject_plan *plan, bool injects, uint64_t interval)
{
	struct inject_times times;
	struct reason why = {};
	int err;

	do {
		err = injects ? inject_execute(plan, &(struct inject_options){ .interval = interval, .is_exact = is_exact }, NULL, &times, &why)
			      : eject(pid, &why);
	} while (injects && tries_again(err));
	printf(err ? "refused %s %s\n" : "done\n", strerrorname_np(-err), why.text);
	fflush(stdout);
	return err != 0;
}

static int obey_with_hooks(pid_t pid, bool injects);

static int serve(pid_t pid, bool has_hooks, uint64_t interval, struct reason *why)
{
	struct sandbox *sandbox = sandbox__open(&(struct sandbox_options){}, why);
	struct inject_plan *plan = NULL;
	int err = !sandbox ? -errno : has_hooks ? 0 : inject_plan_make(sandbox, pid, &plan, why), status;
	char word[8];

	while (!err && scanf("%7s %d", word, &die_at) == 2) {
		pid_t child;

		*moment_nr = 0;
		child = fork();
		if (!child)
			_exit(has_hooks ? obey_with_hooks(pid, *word == 'i') : obey(pid, plan, *word == 'i', interval));
		if (child < 0 || waitpid(child, &status, 0) != child)
			err = -errno;
		else if (WIFSIGNALED(status)) {
			printf("%s\n", WTERMSIG(status) == SIGKILL ? "killed" : "crashed");
			fflush(stdout);
		}
	}
	inject_plan_free(plan);
	sandbox__close(sandbox);
	return err;
}

/* ---- hooks ---- */

static int put_hooks(pid_t pid, struct inject_python *python, uint64_t start_time, struct inject_books *ret_books,
		     struct inject_times *ret_times, struct reason *why)
{
	struct inject_file file;
	struct inject_books books;
	int err;

	do {
		err = inject_python_execute(pid, start_time, python, NULL, &(struct inject_options){ .owner = owner }, &books, &file,
					    ret_times, why);
	} while (tries_again(err));
	if (err)
		return err;
	close(books.fd);
	if (!inject_has_file(pid, &file))
		return reason_set(why, -EINVAL, "it does not have the file");
	*ret_books = books;
	return 0;
}

static int inject_hooks(pid_t pid, bool waits, struct reason *why)
{
	struct inject_python python;
	struct inject_books books;
	struct inject_times times = {};
	uint64_t start_time;
	int err = read_python_target(pid, &python, &start_time, why);

	if (waits) {
		puts("ready");
		fflush(stdout);
		getchar();
	}
	err = err ?: put_hooks(pid, &python, start_time, &books, &times, why);
	if (err)
		return err;
	printf("books %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", books.start, books.end, books.dev, books.inode);
	print_times(&times);
	return 0;
}

static int cycle_hooks(pid_t pid, int nr, struct reason *why)
{
	struct cycle_sums sums = {};
	struct inject_python python;
	struct inject_books books;
	uint64_t start_time;
	int err = read_python_target(pid, &python, &start_time, why);

	while (sums.done < nr && !err) {
		struct eject_result result = {};
		struct inject_times times = {};

		err = put_hooks(pid, &python, start_time, &books, &times, why);
		if (err)
			break;
		add_times(&sums, &times);
		usleep(2000);
		do {
			err = inject_eject(pid, 0, 0, &result, why);
		} while (tries_again(err));
		sums.done++;
		sums.kept += result.kept_nr;
		if (!err)
			add_times(&sums, &result.times);
	}
	printf("cycles %d, %" PRIu64 " us stopped, at most %" PRIu64 " us, kept %u\n", sums.done, sums.stopped_ns / 1000,
	       sums.most_ns / 1000, sums.kept);
	return err;
}

static int obey_with_hooks(pid_t pid, bool injects)
{
	struct reason why = {};
	int err = injects ? inject_hooks(pid, false, &why) : eject(pid, &why);

	printf(err ? "refused %s %s\n" : "done\n", strerrorname_np(-err), why.text);
	fflush(stdout);
	return err != 0;
}

static int print_words(pid_t pid, struct reason *why)
{
	struct inject_python python;
	uint64_t start_time;
	int err = read_python_target(pid, &python, &start_time, why);

	for (int domain = 0; domain < PYTHON_DOMAIN_NR && !err; domain++)
		for (int i = 0; i < PYTHON_OPERATION_NR; i++)
			printf("%#" PRIx64 "\n", python.word[domain][i].was);
	if (!err && python.tracer.address)
		printf("%#" PRIx64 "\n", python.tracer.was);
	return err;
}

static int visit(char **argv)
{
	uint64_t number[6];

	for (int i = 0; i < 6; i++)
		number[i] = strtoull(argv[i + 3], NULL, 0);
	return visit_books(atoi(argv[2]), &(struct inject_books){ number[0], number[1], number[2], number[3] }, number[4], number[5]);
}

static int find(pid_t pid, struct reason *why)
{
	struct inject_found found;
	int err = inject_find(pid, &found, why);

	if (err)
		return err;
	printf("found %s version %u allocators %u active %d unfinished %d owner %d running %d interval %" PRIu64 " functions %u\n",
	       inject_kind_text(found.kind), found.version, found.allocator_nr, found.is_active, found.is_unfinished, found.owner, found.owner_is_running,
	       found.interval, found.function_nr);
	return 0;
}

int main(int argc, char **argv)
{
	struct reason why = {};
	pid_t pid = argc > 2 ? atoi(argv[2]) : 0;
	uint64_t interval = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;
	int err = -EINVAL;

	moment_nr = mmap(NULL, sizeof(*moment_nr), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (moment_nr == MAP_FAILED)
		return 2;
	die_at_name = getenv("DIE_AT") ?: "";
	die_at = atoi(die_at_name);
	owner = getenv("OWNER") ? atoi(getenv("OWNER")) : 0;
	is_exact = getenv("EXACT");
	inject_moment = pass_or_die;
	if (argc > 2 && !strcmp(argv[1], "plan"))
		err = plan_and_inject(pid, false, 0, &why);
	else if (argc > 2 && !strcmp(argv[1], "inject"))
		err = plan_and_inject(pid, true, interval, &why);
	else if (argc > 2 && !strcmp(argv[1], "eject"))
		err = eject(pid, &why);
	else if (argc > 2 && !strcmp(argv[1], "find"))
		err = find(pid, &why);
	else if (argc > 3 && !strcmp(argv[1], "serve"))
		err = serve(pid, false, interval, &why);
	else if (argc > 2 && !strcmp(argv[1], "hook-serve"))
		err = serve(pid, true, 0, &why);
	else if (argc > 2 && !strcmp(argv[1] + 5 * !strncmp(argv[1], "late-", 5), "hooks"))
		err = inject_hooks(pid, *argv[1] == 'l', &why);
	else if (argc > 3 && !strcmp(argv[1], "hook-cycles"))
		err = cycle_hooks(pid, atoi(argv[3]), &why);
	else if (argc > 2 && !strcmp(argv[1], "words"))
		err = print_words(pid, &why);
	else if (argc > 8 && !strcmp(argv[1], "books"))
		err = visit(argv);
	else if (argc > 3 && !strcmp(argv[1], "cycles"))
		err = run_cycles(pid, atoi(argv[3]), false, &why);
	else if (argc > 3 && !strcmp(argv[1], "tries"))
		err = run_cycles(pid, atoi(argv[3]), true, &why);
	if (getenv("COUNT_MOMENTS"))
		printf("moments %d\n", *moment_nr);
	if (!err)
		return 0;
	printf("refused %s %s\n", strerrorname_np(-err), why.text);
	return 1;
}
