// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "sandbox_fixture.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"

struct sandbox *parser_with(read_fn read, uint64_t cpu_ns)
{
	const struct sandbox_options options = { .read = read, .cpu_ns = cpu_ns };
	struct reason why;
	struct sandbox *sandbox = sandbox__open(&options, &why);

	cr_assert(sandbox, "%s", why.text);
	return sandbox;
}

pid_t only_child_of(pid_t pid)
{
	char path[64];
	int child = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	file = fopen(path, "r");
	cr_assert(file && fscanf(file, "%d", &child) == 1);
	fclose(file);
	return child;
}

/* As /proc shows it: 'S' for one that sleeps, 'Z' also for one that is gone. */
static char process_state(pid_t pid)
{
	char path[64], state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%*d %*s %c", &state) != 1)
		state = 'Z';
	if (file)
		fclose(file);
	return state;
}

void wait_until_dead(pid_t pid)
{
	while (process_state(pid) != 'Z')
		usleep(1000);
}

/* Whether it is blocked in this system call, and not for another reason. */
static bool is_in_call(pid_t pid, long wanted)
{
	char path[64];
	long call = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/syscall", pid);
	file = fopen(path, "r");
	if (file && fscanf(file, "%ld", &call) != 1) /* "running" */
		call = -1;
	if (file)
		fclose(file);
	return call == wanted;
}

void wait_until_in_call(pid_t pid, long call)
{
	while (!is_in_call(pid, call))
		usleep(1000);
}

pid_t parser_fork_server(void)
{
	return only_child_of(getpid());
}

pid_t parser_reader(void)
{
	return only_child_of(parser_fork_server());
}

/* ---- in the reader ---- */

struct names_question parser_question(const struct channel *channel, struct message *ret_head,
				      int *ret_object)
{
	struct { struct names_question question; uint64_t offset[QUESTION_OFFSETS_MAX]; } all = {};

	if (channel__head(channel, ret_head, ret_object) ||
	    channel__receive(channel, &all, ret_head->bytes))
		_exit(0);
	return all.question;
}

void parser_say(int fd, const struct parser_said *said)
{
	const struct channel channel = { .fd = fd };
	struct verdict verdict = { .err = said->err };
	struct iovec piece[1 + ARRAY_SIZE(said->piece)] = { { &verdict, sizeof(verdict) } };
	struct message head;
	int object;

	memcpy(piece + 1, said->piece, sizeof(said->piece));
	for (;;) {
		parser_question(&channel, &head, &object);
		if (said->before)
			said->before(object);
		channel__send(&channel, said->kind, piece, 1 + said->piece_nr, -1);
	}
}

void parser_answer_name(const struct channel *channel, uint32_t nr, const char *name)
{
	struct verdict verdict = {};
	struct names_answer answer = { nr, nr, strlen(name) + 1 };
	uint32_t frames_of[QUESTION_OFFSETS_MAX];
	struct wire_frame frame[QUESTION_OFFSETS_MAX];
	const struct iovec piece[] = {
		{ &verdict, sizeof(verdict) }, { &answer, sizeof(answer) }, { frames_of, nr * sizeof(*frames_of) },
		{ frame, nr * sizeof(*frame) }, { (void *)name, answer.text_bytes },
	};

	for (uint32_t i = 0; i < nr; i++) {
		frames_of[i] = 1;
		frame[i] = (struct wire_frame){ .function = 1 };
	}
	channel__send(channel, NAMES, piece, ARRAY_SIZE(piece), -1);
}

void parser_answer_why(const struct channel *channel, const char *why)
{
	struct verdict verdict = { .err = -EIO };

	snprintf(verdict.why, sizeof(verdict.why), "%.*s", (int)sizeof(verdict.why) - 1, why);
	channel__send(channel, NAMES, &(struct iovec){ &verdict, sizeof(verdict) }, 1, -1);
}
