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
static void parser_count_waiting(struct parser *parser)
{
	uint64_t now = monotonic_now_ns(), step = now - parser->looked_at_ns;

	if (step > 2 * SLICE_NS)
		step = 2 * SLICE_NS;
	parser->looked_at_ns = now;
	parser->waited_ns += step;
	parser->unjudged_ns += step;
	if (parser->unjudged_ns < SLICE_NS)
		return;
	if (is_idle(parser->reader))
		parser->idle_ns += parser->unjudged_ns;
	parser->unjudged_ns = 0;
}

static int is_answer_too_late(void *who)
{
	struct parser *parser = who;
	uint64_t used = cpu_ns_of(parser->reader) - parser->cpu_ns_at_start;

	parser_count_waiting(parser);
	if (parser->gives_up && parser->gives_up())
		return -ECANCELED;
	if (used <= UINT64_MAX / 2 && used > parser->cpu_ns_left)
		return -ETIMEDOUT;
	if (parser->idle_ns > IDLE_NS)
		return -ETIMEDOUT;
	return parser->waited_ns > SECOND_NS + parser->cpu_ns_left * WAIT_FACTOR ? -ETIMEDOUT : 0;
}

static void begin_waiting(struct parser *parser, uint64_t cpu_ns_left, uint64_t cpu_ns_at_start)
{
	parser->cpu_ns_left = cpu_ns_left;
	parser->cpu_ns_at_start = cpu_ns_at_start;
	parser->waited_ns = parser->unjudged_ns = parser->idle_ns = 0;
	parser->looked_at_ns = monotonic_now_ns();
}

static uint64_t allow_cpu_ns(struct parser *parser, uint64_t cpu_ns)
{
	if (patience_recover(&parser->patience))
		parser->read_ns = 0;
	return cpu_ns >> parser->patience.failed_nr;
}

static void parser_count_failure(struct parser *parser)
{
	parser->read_ns = 0;
	patience_lose(&parser->patience, FAILURES_MAX);
}

/* Questions that succeed, but take long together, count as a failure, too. */
static void count_reading(struct parser *parser, uint64_t cpu_ns)
{
	parser->read_ns += cpu_ns;
	if (parser->read_ns > parser->options.cpu_ns / 2)
		parser_count_failure(parser);
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

/* Starts another reader. *ret_status is the exit status of the last one, -1: there was none. */
static int renew(struct parser *parser, int *ret_status)
{
	struct message ready;
	struct hired hired;
	int err;

	channel__close(&parser->channel);
	err = spawner__hire(&parser->spawner, monotonic_now_ns() + START_NS, &hired);
	if (err)
		return err;
	*ret_status = hired.status;
	parser->reader = hired.pid;
	offer_to_oom_killer(parser->reader);
	parser->channel = (struct channel){ .fd = hired.fd, .is_too_long = is_answer_too_late, .who = parser };
	parser->generation++;
	parser->is_spent = parser->has_read = false;
	begin_waiting(parser, START_NS, 0);
	err = channel__head(&parser->channel, &ready, NULL);
	if (err)
		channel__close(&parser->channel);
	parser->data_at_start = memory_of(parser->reader, "VmData");
	return err;
}

int rpc__begin(struct parser *parser, const char *object_path, uint64_t cpu_ns_left,
			struct reason *why)
{
	int status, err = 0;

	if (parser->is_spent || !channel__is_quiet(&parser->channel))
		err = renew(parser, &status);
	if (err)
		return reason_set(why, -EIO, "the process that reads such files is gone: %s",
				  strerror(-err));
	parser->has_read = true;
	parser->object_path = object_path;
	cpu_ns_left = allow_cpu_ns(parser, cpu_ns_left);
	if (cpu_ns_left > parser->all_cpu_ns_left)
		cpu_ns_left = parser->all_cpu_ns_left;
	begin_waiting(parser, cpu_ns_left, cpu_ns_of(parser->reader));
	parser->rss_at_start = memory_of(parser->reader, "VmHWM");
	parser->wants = 0;
	return 0;
}

/* ---- answers ---- */

static bool is_sound_file_wanted(const struct file_wanted *wanted)
{
	return wanted->kind <= DEBUG_SHARED && wanted->build_id_len <= sizeof(wanted->build_id) &&
	       memchr(wanted->name, '\0', sizeof(wanted->name));
}

static int candidate_in(const struct parser *parser, size_t at, const struct debug_want *want)
{
	const struct parser_options *options = &parser->options;

	return debug_file__candidate(at < options->debug_dir_nr ? options->debug_dir_fd[at] :
								  parser->debug_root_fd,
				     parser->object_path, want);
}

/*
 * Opens candidate number want->nr. The reader checks whether it is the right file, and else asks
 * for the next one.
 */
static int find_candidate(const struct parser *parser, const struct debug_want *want)
{
	uint32_t nr = 0;

	for (size_t i = 0; i <= parser->options.debug_dir_nr; i++) {
		int fd = candidate_in(parser, i, want);

		if (fd >= 0 && nr++ == want->nr)
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

/* The reader may ask for each candidate, and once more for the end of the candidates. */
static bool may_want(struct parser *parser)
{
	return parser->wants++ < WANTS_MAX * (parser->options.debug_dir_nr + 1);
}

static int give_file(struct parser *parser, const struct message *head)
{
	struct file_wanted wanted;
	struct debug_want want;
	int fd, err = -EPROTO;

	if (head->bytes == sizeof(wanted) && may_want(parser))
		err = channel__receive(&parser->channel, &wanted, sizeof(wanted));
	if (!err && !is_sound_file_wanted(&wanted))
		err = -EPROTO;
	if (err)
		return err;
	want = (struct debug_want){
		wanted.kind, wanted.build_id, wanted.build_id_len, wanted.name, wanted.nr,
	};
	fd = find_candidate(parser, &want);
	err = channel__send(&parser->channel, fd < 0 ? HERE_IS_NONE : HERE_IS, NULL, 0, fd);
	if (fd >= 0)
		close(fd);
	return err;
}

int rpc__answer(struct parser *parser, enum message_kind kind, uint32_t bytes_max,
			 struct message *ret)
{
	int err;

	do {
		err = channel__head(&parser->channel, ret, NULL);
		if (!err && ret->kind == WANT_FILE)
			err = give_file(parser, ret);
	} while (!err && ret->kind == WANT_FILE);
	if (!err && (ret->kind != kind || ret->bytes > bytes_max))
		err = -EPROTO;
	return err;
}

/* ---- the result ---- */

static int describe_end(const struct parser *parser, int err, int status, struct reason *why)
{
	if (err == -ETIMEDOUT)
		return reason_set(why, -EIO, "reading it takes too long");
	if (err == -EPROTO)
		return reason_set(why, -EIO, "the process that read it gave an answer that makes no sense");
	if (err == -E2BIG)
		return reason_set(why, -EIO, "reading it takes more than %llu MiB of memory",
				  (unsigned long long)parser->options.memory_bytes >> 20);
	if (status != -1 && WIFSIGNALED(status))
		return reason_set(why, -EIO, "the process that read it was ended by signal %d (%s)",
				  WTERMSIG(status), strsignal(WTERMSIG(status)));
	return reason_set(why, -EIO, "the process that read it has ended");
}

/*
 * libdw gives up silently when it cannot allocate memory. So a reader that comes close to its limit
 * with one question counts as one that has reached it.
 */
static int check_memory(struct parser *parser)
{
	uint64_t most = parser->options.memory_bytes / 4;

	if (memory_of(parser->reader, "VmHWM") > parser->rss_at_start + 3 * most)
		return -E2BIG;
	if (memory_of(parser->reader, "VmData") > parser->data_at_start + 2 * most)
		parser->is_spent = true;
	return 0;
}

int rpc__end(struct parser *parser, int err, uint64_t *ret_cpu_ns, struct reason *why)
{
	uint64_t now = cpu_ns_of(parser->reader);
	int status = -1;

	*ret_cpu_ns = now > parser->cpu_ns_at_start ? now - parser->cpu_ns_at_start : 0;
	if (parser->all_cpu_ns_left != UINT64_MAX)
		parser->all_cpu_ns_left -= *ret_cpu_ns < parser->all_cpu_ns_left ? *ret_cpu_ns : parser->all_cpu_ns_left;
	if (!err)
		err = check_memory(parser);
	if (!err) {
		count_reading(parser, *ret_cpu_ns);
		return 0;
	}
	parser_count_failure(parser);
	renew(parser, &status);
	return describe_end(parser, err, status, why);
}

/* ---- begin and end ---- */

static int be_reader(const void *self)
{
	const struct parser_options *options = self;

	if (confine_to_reading(options->memory_bytes))
		return 127;
	if (!channel__send(&(struct channel){ .fd = CHILD_FD }, READY, NULL, 0, -1))
		options->read(CHILD_FD);
	return 0;
}

static int start_spawner(struct parser *parser)
{
	return spawner__start(&parser->spawner, &(struct spawner_plan){
		.spawner = {
			.name = "allocsnap-spawn",
			.shown = "allocsnap: reads ELF files, without privileges",
			.give_up = confine_drop_rights,
		},
		.name = "allocsnap-names",
		.work = be_reader,
		.self = &parser->options,
		.worker_most = 1,
	});
}

struct parser *parser__open(const struct parser_options *options, struct reason *why)
{
	struct parser *parser = calloc(1, sizeof(*parser));
	uint64_t cpu_ns;
	int err;

	if (!parser) {
		reason_set(why, 0, "out of memory");
		return NULL;
	}
	parser->options = (struct parser_options){
		.debug_root = options->debug_root ?: DEBUG_FILE_ROOT,
		.debug_dir_fd = options->debug_dir_fd,
		.debug_dir_nr = options->debug_dir_nr,
		.memory_bytes = options->memory_bytes ?: MEMORY_BYTES,
		.cpu_ns = options->cpu_ns ?: CPU_NS,
		.read = options->read ?: serve_questions,
	};
	parser->source = (struct symbol_source){ .look_up = ask_names, .forget = ask_names_forget_object, .self = parser };
	parser__limit(parser, UINT64_MAX, NULL);
	parser->channel.fd = -1;
	parser->debug_root_fd = open(parser->options.debug_root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	err = start_spawner(parser);
	if (!err)
		err = rpc__begin(parser, "", CPU_NS, why);
	if (!err)
		err = rpc__end(parser, 0, &cpu_ns, why);
	if (!err)
		return parser;
	if (!mounts_check(why))
		reason_set(why, 0, "cannot start the process that reads ELF files: %s", strerror(-err));
	parser__close(parser);
	errno = -err;
	return NULL;
}

void parser__close(struct parser *parser)
{
	if (!parser)
		return;
	channel__close(&parser->channel);
	spawner__stop(&parser->spawner);
	if (parser->debug_root_fd >= 0)
		close(parser->debug_root_fd);
	free(parser->asked);
	free(parser);
}

void parser__limit(struct parser *parser, uint64_t cpu_ns, bool (*gives_up)(void))
{
	parser->all_cpu_ns_left = cpu_ns;
	parser->gives_up = gives_up;
}

int parser__end_fd(const struct parser *parser)
{
	return parser->spawner.helper.end_fd;
}

bool parser__has_ended(const struct parser *parser)
{
	return helper__has_ended(&parser->spawner.helper);
}

const struct symbol_source *parser__source(struct parser *parser)
{
	return &parser->source;
}
