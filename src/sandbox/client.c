// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sandbox/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/privileges.h"
#include "sandbox/rpc.h"
#include "sandbox/seccomp.h"

#define MEMORY_BYTES (4ull << 30)
#define CPU_NS (30 * SECOND_NS)
#define START_NS (10 * SECOND_NS) /* a reader that is not forked, or not ready, after this time never will be */
#define WAIT_FACTOR 5		  /* waiting time per processor time: the machine may be busy */
#define IDLE_NS (5 * SECOND_NS)   /* limit for the time in which the reader sleeps or is stopped */
#define FAILURES_MAX 6		  /* more failures do not count; each one halves the time: 2^6 times less */
#define SLICE_NS (CHANNEL_SLICE_MS * 1000000ull)

/* ---- what the reader uses ---- */

/* 0 if the process has ended. */
static uint64_t cpu_ns_of(pid_t pid)
{
	clockid_t clock;

	return clock_getcpuclockid(pid, &clock) ? 0 : clock_now_ns(clock);
}

static FILE *open_of(pid_t pid, const char *name, const char *mode)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	return fopen(path, mode);
}

/* The value of a line of /proc/PID/status, in bytes; 0 if the process has ended. */
static uint64_t memory_of(pid_t pid, const char *name)
{
	FILE *file = open_of(pid, "status", "re");
	unsigned long long kib = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			sscanf(line + strlen(name), ": %llu", &kib);
	if (file)
		fclose(file);
	return kib << 10;
}

/*
 * A reader that works is running, or waits for a disk. An idle one sleeps, or another process has
 * stopped it.
 */
static bool is_idle(pid_t pid)
{
	FILE *file = open_of(pid, "stat", "re");
	char state = '\0';

	if (!file)
		return false;
	if (fscanf(file, "%*d %*s %c", &state) != 1)
		state = '\0';
	fclose(file);
	return state == 'S' || state == 'T' || state == 't';
}

/* Limits a step: if this process was stopped for a while, that does not count as the reader's time. */
static void sandbox_count_waiting(struct sandbox *sandbox)
{
	uint64_t now = monotonic_now_ns(), step = now - sandbox->looked_at_ns;

	if (step > 2 * SLICE_NS)
		step = 2 * SLICE_NS;
	sandbox->looked_at_ns = now;
	sandbox->waited_ns += step;
	sandbox->unjudged_ns += step;
	if (sandbox->unjudged_ns < SLICE_NS)
		return;
	if (is_idle(sandbox->reader))
		sandbox->idle_ns += sandbox->unjudged_ns;
	sandbox->unjudged_ns = 0;
}

static int is_answer_too_late(void *who)
{
	struct sandbox *sandbox = who;
	uint64_t used = cpu_ns_of(sandbox->reader) - sandbox->cpu_ns_at_start;

	sandbox_count_waiting(sandbox);
	if (sandbox->gives_up && sandbox->gives_up())
		return -ECANCELED;
	if (used <= UINT64_MAX / 2 && used > sandbox->cpu_ns_left)
		return -ETIMEDOUT;
	if (sandbox->idle_ns > IDLE_NS)
		return -ETIMEDOUT;
	return sandbox->waited_ns > SECOND_NS + sandbox->cpu_ns_left * WAIT_FACTOR ? -ETIMEDOUT : 0;
}

static void begin_waiting(struct sandbox *sandbox, uint64_t cpu_ns_left, uint64_t cpu_ns_at_start)
{
	sandbox->cpu_ns_left = cpu_ns_left;
	sandbox->cpu_ns_at_start = cpu_ns_at_start;
	sandbox->waited_ns = sandbox->unjudged_ns = sandbox->idle_ns = 0;
	sandbox->looked_at_ns = monotonic_now_ns();
}

static uint64_t allow_cpu_ns(struct sandbox *sandbox, uint64_t cpu_ns)
{
	if (patience_recover(&sandbox->patience))
		sandbox->read_ns = 0;
	return cpu_ns >> sandbox->patience.failed_nr;
}

static void sandbox_count_failure(struct sandbox *sandbox)
{
	sandbox->read_ns = 0;
	patience_lose(&sandbox->patience, FAILURES_MAX);
}

/* Questions that succeed, but take long together, count as a failure, too. */
static void count_reading(struct sandbox *sandbox, uint64_t cpu_ns)
{
	sandbox->read_ns += cpu_ns;
	if (sandbox->read_ns > sandbox->options.cpu_ns / 2)
		sandbox_count_failure(sandbox);
}

/* ---- readers ---- */

/* If memory runs short, the kernel should kill the reader and not the recording. */
static void offer_to_oom_killer(pid_t pid)
{
	FILE *file = open_of(pid, "oom_score_adj", "we");

	if (!file)
		return;
	fputs("1000", file);
	fclose(file);
}

/* Starts another reader. *ret_status is the exit status of the last reader, -1: there was no reader before. */
static int renew(struct sandbox *sandbox, int *ret_status)
{
	struct message ready;
	struct hired hired;
	int err;

	channel__close(&sandbox->channel);
	err = spawner__hire(&sandbox->spawner, monotonic_now_ns() + START_NS, &hired);
	if (err)
		return err;
	*ret_status = hired.status;
	sandbox->reader = hired.pid;
	offer_to_oom_killer(sandbox->reader);
	sandbox->channel = (struct channel){ .fd = hired.fd, .is_too_long = is_answer_too_late, .who = sandbox };
	sandbox->generation++;
	sandbox->is_spent = sandbox->has_read = false;
	begin_waiting(sandbox, START_NS, 0);
	err = channel__head(&sandbox->channel, &ready, NULL);
	if (err)
		channel__close(&sandbox->channel);
	sandbox->data_at_start = memory_of(sandbox->reader, "VmData");
	return err;
}

int rpc__begin(struct sandbox *sandbox, const char *object_path, uint64_t cpu_ns_left,
			struct reason *why)
{
	int status, err = 0;

	if (sandbox->is_spent || !channel__is_quiet(&sandbox->channel))
		err = renew(sandbox, &status);
	if (err)
		return reason_set(why, -EIO, "the process that reads such files is gone: %s",
				  strerror(-err));
	sandbox->has_read = true;
	sandbox->object_path = object_path;
	cpu_ns_left = allow_cpu_ns(sandbox, cpu_ns_left);
	if (cpu_ns_left > sandbox->all_cpu_ns_left)
		cpu_ns_left = sandbox->all_cpu_ns_left;
	begin_waiting(sandbox, cpu_ns_left, cpu_ns_of(sandbox->reader));
	sandbox->rss_at_start = memory_of(sandbox->reader, "VmHWM");
	sandbox->wants = 0;
	return 0;
}

/* ---- answers ---- */

static bool is_sound_file_wanted(const struct file_wanted *wanted)
{
	return wanted->kind <= DEBUG_SHARED && wanted->build_id_len <= sizeof(wanted->build_id) &&
	       memchr(wanted->name, '\0', sizeof(wanted->name));
}

static int candidate_in(const struct sandbox *sandbox, size_t at, const struct debug_want *want)
{
	const struct sandbox_options *options = &sandbox->options;

	return debug_file__candidate(at < options->debug_dir_nr ? options->debug_dir_fd[at] :
								  sandbox->debug_root_fd,
				     sandbox->object_path, want);
}

/*
 * Opens candidate number want->nr. The reader checks whether it is the right file, and else asks
 * for the next one.
 */
static int find_candidate(const struct sandbox *sandbox, const struct debug_want *want)
{
	uint32_t nr = 0;

	for (size_t i = 0; i <= sandbox->options.debug_dir_nr; i++) {
		int fd = candidate_in(sandbox, i, want);

		if (fd >= 0 && nr++ == want->nr)
			return fd;
		if (fd >= 0)
			close(fd);
	}
	if (nr != want->nr || want->kind != DEBUG_BY_BUILD_ID || !sandbox->options.fetcher)
		return -1;
	return sandbox->options.fetcher->fetch(sandbox->options.fetcher->self, FETCHED_DEBUG_FILE, want->build_id,
					       want->build_id_len);
}

/* The reader may ask for each candidate, and once more for the end of the candidates. */
static bool may_want(struct sandbox *sandbox)
{
	return sandbox->wants++ < WANTS_MAX * (sandbox->options.debug_dir_nr + 1);
}

static int give_file(struct sandbox *sandbox, const struct message *head)
{
	struct file_wanted wanted;
	struct debug_want want;
	int fd, err = -EPROTO;

	if (head->bytes == sizeof(wanted) && may_want(sandbox))
		err = channel__receive(&sandbox->channel, &wanted, sizeof(wanted));
	if (!err && !is_sound_file_wanted(&wanted))
		err = -EPROTO;
	if (err)
		return err;
	want = (struct debug_want){
		wanted.kind, wanted.build_id, wanted.build_id_len, wanted.name, wanted.nr,
	};
	fd = find_candidate(sandbox, &want);
	err = channel__send(&sandbox->channel, fd < 0 ? HERE_IS_NONE : HERE_IS, NULL, 0, fd);
	if (fd >= 0)
		close(fd);
	return err;
}

int rpc__answer(struct sandbox *sandbox, enum message_kind kind, uint32_t bytes_max,
			 struct message *ret)
{
	int err;

	do {
		err = channel__head(&sandbox->channel, ret, NULL);
		if (!err && ret->kind == WANT_FILE)
			err = give_file(sandbox, ret);
	} while (!err && ret->kind == WANT_FILE);
	if (!err && (ret->kind != kind || ret->bytes > bytes_max))
		err = -EPROTO;
	return err;
}

/* ---- the result ---- */

static int describe_end(const struct sandbox *sandbox, int err, int status, struct reason *why)
{
	if (err == -ETIMEDOUT)
		return reason_set(why, -EIO, "reading it takes too long");
	if (err == -EPROTO)
		return reason_set(why, -EIO, "the process that read it gave an answer that makes no sense");
	if (err == -E2BIG)
		return reason_set(why, -EIO, "reading it takes more than %llu MiB of memory",
				  (unsigned long long)sandbox->options.memory_bytes >> 20);
	if (err != -EPIPE && err != -ECANCELED)
		return reason_set(why, -EIO, "the process that read it failed: %s", strerror(-err));
	if (status != -1 && WIFSIGNALED(status))
		return reason_set(why, -EIO, "the process that read it was ended by signal %d (%s)",
				  WTERMSIG(status), strsignal(WTERMSIG(status)));
	return reason_set(why, -EIO, "the process that read it has ended");
}

/*
 * libdw gives up silently when it cannot allocate memory. So a reader that comes close to its limit
 * with one question counts as one that has reached it.
 */
static int check_memory(struct sandbox *sandbox)
{
	uint64_t most = sandbox->options.memory_bytes / 4;

	if (memory_of(sandbox->reader, "VmHWM") > sandbox->rss_at_start + 3 * most)
		return -E2BIG;
	if (memory_of(sandbox->reader, "VmData") > sandbox->data_at_start + 2 * most)
		sandbox->is_spent = true;
	return 0;
}

int rpc__end(struct sandbox *sandbox, int err, uint64_t *ret_cpu_ns, struct reason *why)
{
	uint64_t now = cpu_ns_of(sandbox->reader);
	int status = -1;

	*ret_cpu_ns = now > sandbox->cpu_ns_at_start ? now - sandbox->cpu_ns_at_start : 0;
	if (sandbox->all_cpu_ns_left != UINT64_MAX)
		sandbox->all_cpu_ns_left -= *ret_cpu_ns < sandbox->all_cpu_ns_left ? *ret_cpu_ns : sandbox->all_cpu_ns_left;
	if (!err)
		err = check_memory(sandbox);
	if (!err) {
		count_reading(sandbox, *ret_cpu_ns);
		return 0;
	}
	sandbox_count_failure(sandbox);
	renew(sandbox, &status);
	return describe_end(sandbox, err, status, why);
}

/* ---- begin and end ---- */

static int be_reader(const void *self)
{
	const struct sandbox_options *options = self;

	if (confine_to_reading(options->memory_bytes))
		return 127;
	if (!channel__send(&(struct channel){ .fd = CHILD_FD }, READY, NULL, 0, -1))
		options->read(CHILD_FD);
	return 0;
}

static int start_spawner(struct sandbox *sandbox)
{
	return spawner__start(&sandbox->spawner, &(struct spawner_plan){
		.spawner = {
			.name = "allocsnap-spawn",
			.shown = "allocsnap: reads ELF files, without privileges",
			.give_up = confine_drop_rights,
		},
		.name = "allocsnap-names",
		.work = be_reader,
		.self = &sandbox->options,
		.worker_most = 1,
	});
}

struct sandbox *sandbox__open(const struct sandbox_options *options, struct reason *why)
{
	struct sandbox *sandbox = calloc(1, sizeof(*sandbox));
	uint64_t cpu_ns;
	int err;

	if (!sandbox) {
		reason_set(why, 0, "out of memory");
		return NULL;
	}
	sandbox->options = (struct sandbox_options){
		.debug_root = options->debug_root ?: DEBUG_FILE_ROOT,
		.debug_dir_fd = options->debug_dir_fd,
		.debug_dir_nr = options->debug_dir_nr,
		.fetcher = options->fetcher,
		.memory_bytes = options->memory_bytes ?: MEMORY_BYTES,
		.cpu_ns = options->cpu_ns ?: CPU_NS,
		.read = options->read ?: serve_questions,
	};
	sandbox->source = (struct symbol_source){ .look_up = ask_names, .forget = ask_names_forget_object, .self = sandbox };
	sandbox__limit(sandbox, UINT64_MAX, NULL);
	sandbox->channel.fd = -1;
	sandbox->debug_root_fd = open(sandbox->options.debug_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	err = start_spawner(sandbox);
	if (!err)
		err = rpc__begin(sandbox, "", CPU_NS, why);
	if (!err)
		err = rpc__end(sandbox, 0, &cpu_ns, why);
	if (!err)
		return sandbox;
	if (!mounts_check(why))
		reason_set(why, 0, "cannot start the process that reads ELF files: %s", strerror(-err));
	sandbox__close(sandbox);
	errno = -err;
	return NULL;
}

void sandbox__close(struct sandbox *sandbox)
{
	if (!sandbox)
		return;
	channel__close(&sandbox->channel);
	spawner__stop(&sandbox->spawner);
	if (sandbox->debug_root_fd >= 0)
		close(sandbox->debug_root_fd);
	free(sandbox->asked);
	free(sandbox);
}

void sandbox__limit(struct sandbox *sandbox, uint64_t cpu_ns, bool (*gives_up)(void))
{
	sandbox->all_cpu_ns_left = cpu_ns;
	sandbox->gives_up = gives_up;
}

const struct helper *sandbox__helper(const struct sandbox *sandbox)
{
	return &sandbox->spawner.helper;
}

const struct symbol_source *sandbox__source(struct sandbox *sandbox)
{
	return &sandbox->source;
}
