// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Answers of the process without privileges, which an attacker may control: KIND, then an answer, with or
 * without the head of a message. Every answer is refused with a reason, or sound.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/array.h"
#include "check.h"
#include "elf/allocators.h"
#include "elf/entry_patch.h"
#include "elf/probe_info.h"
#include "elf/python/python_info.h"
#include "elf/python/python_lines.h"
#include "elf/runtime_detect.h"
#include "helper/spawner.h"
#include "sandbox/client.h"
#include "sandbox/messages.h"
#include "symbols/go_program.h"
#include "symbols/perf_map.h"
#include "unwind/unwind_table.h"

#define KIND_WITHOUT_HEAD 0x80 /* the first word of an answer */

static const uint8_t *said;
static size_t said_bytes;
static uint32_t said_kind; /* 0: no head of ours */
static int readers_end = -1;

/* ---- the answering process, instead of spawner.c ---- */

void serve_questions(int fd)
{
	close(fd);
}

int spawner__start(struct spawner *spawner, const struct spawner_plan *)
{
	spawner->helper = (struct helper){ .end_fd = -1, .channel.fd = -1 };
	return 0;
}

void spawner__stop(struct spawner *)
{
}

int spawner__hire(struct spawner *, uint64_t, struct hired *ret)
{
	const struct message ready = { .kind = READY };
	const struct message head = { said_kind, said_bytes };
	int end[2];

	MUST(!channel__pair(end));
	if (readers_end >= 0)
		close(readers_end);
	readers_end = end[1];
	send(end[1], &ready, sizeof(ready), MSG_DONTWAIT);
	if (said_kind)
		send(end[1], &head, sizeof(head), MSG_DONTWAIT);
	if (said_bytes)
		send(end[1], said, said_bytes, MSG_DONTWAIT);
	shutdown(end[1], SHUT_WR);
	*ret = (struct hired){ end[0], getpid(), -1 };
	return 0;
}

/* ---- questions ---- */

static const int allowed[] = { -ENOEXEC, -ENOTSUP, -E2BIG, -ENODATA, -ENOENT, -EISDIR, -EIO, 0 };

static void expect_refused(int err, const struct reason *why)
{
	check_refused(err, why, allowed);
	check_one_line(why);
}

static void ask_table(struct sandbox *sandbox, int fd)
{
	struct unwind_table *table = NULL;
	struct reason why = { "" };
	int err = sandbox__unwind_table(sandbox, fd, &table, &why);

	if (err)
		expect_refused(err, &why);
	else
		MUST(unwind_table__is_sound(table));
	unwind_table__free(table);
}

static const struct functions_wanted wanted = { 2, { { "pool_alloc", 2 }, { "pool_free", 6 } } };

static void ask_probe_info(struct sandbox *sandbox, int fd)
{
	struct probe_info probe_info = {};
	struct reason why = { "" };
	int err = sandbox__probe_info(sandbox, fd, &wanted, &probe_info, &why);

	if (err)
		expect_refused(err, &why);
	for (uint32_t i = 0; i < probe_info.function_nr; i++)
		MUST(probe_info.function[i].offset < 1 << 16 &&
		     probe_info.function[i].name < allocator_function_nr + wanted.nr);
	probe_info_release(&probe_info);
}

static void ask_returns(struct sandbox *sandbox, int fd)
{
	struct object_returns returns = {};
	struct reason why = { "" };
	int err = sandbox__returns(sandbox, fd, 0x1000, &returns, &why);

	if (err)
		expect_refused(err, &why);
	for (uint32_t i = 0; i < returns.place_nr; i++)
		MUST(returns.place[i].offset < 1 << 16);
	object_returns_release(&returns);
}

static void ask_switch(struct sandbox *sandbox, int fd)
{
	const char *what = NULL;
	int err = sandbox__stack_switch(sandbox, fd, &what);

	MUST(err ? !what : *what);
}

static void ask_traits(struct sandbox *sandbox, int fd)
{
	struct runtime_traits traits = {};
	struct reason why = { "" };
	int err = sandbox__traits(sandbox, fd, &traits, &why);

	if (err)
		expect_refused(err, &why);
	MUST(traits.bits < 1ull << TRAIT_NR);
}

static void ask_entries(struct sandbox *sandbox, int fd)
{
	struct entry_patches patches = {};
	struct reason why = { "" };
	int err = sandbox__entries(sandbox, fd, &patches, &why);

	if (err)
		expect_refused(err, &why);
	for (uint64_t i = 0; i < patches.nr; i++) {
		MUST(patches.patch[i].offset <= 1 << 16 && patches.patch[i].name < allocator_function_nr);
		MUST(entry_patch_moved_bytes(&patches.patch[i]) <= ENTRY_INSNS_MAX * 15);
	}
	entry_patches_release(&patches);
}

static void ask_python(struct sandbox *sandbox, int fd)
{
	struct python_info info = {};
	struct reason why = { "" };
	int err = sandbox__python(sandbox, fd, NULL, &info, &why);

	if (err)
		expect_refused(err, &why);
	MUST(strnlen(info.fault, sizeof(info.fault)) < sizeof(info.fault));
	for (uint32_t i = 0; i < info.site_nr; i++)
		MUST(info.site[i].offset < 1 << 16 && info.site[i].vaddr >= info.text_start &&
		     info.site[i].vaddr < info.text_end && info.site[i].domain < PYTHON_DOMAIN_NR);
	python_info_release(&info);
}

static void ask_lines(struct sandbox *sandbox, int)
{
	const struct python_line_table table = { PYTHON_LOCATIONS, 1, "\0", 1 };
	const int64_t instruction[] = { 0, 1, 2 };
	struct reason why = { "" };
	int32_t line[ARRAY_SIZE(instruction)];
	int err = sandbox__python_lines(sandbox, &table, instruction, ARRAY_SIZE(line), line, &why);

	if (err)
		expect_refused(err, &why);
	for (size_t i = 0; i < ARRAY_SIZE(line) && !err; i++)
		MUST(line[i] >= PYTHON_NO_LINE);
}

static void ask_made(struct sandbox *sandbox, int fd)
{
	const uint64_t address[] = { 1, 2, 3 };
	struct reason why = { "" };
	struct perf_map_names names = {};
	int err = sandbox__made_code(sandbox, fd, &(struct perf_map_part){}, address, ARRAY_SIZE(address), &names, &why);

	if (err)
		expect_refused(err, &why);
	for (uint32_t i = 0; i < names.nr && !err; i++)
		MUST(!names.name[i] || strlen(names.text + names.name[i] - 1) < names.text_bytes);
	free(names.name);
	free(names.text);
}

static void ask_go(struct sandbox *sandbox, int fd)
{
	struct go_program program = {};
	struct reason why = { "" };
	int err = sandbox__go(sandbox, fd, &program, &why);

	if (err)
		expect_refused(err, &why);
	else
		MUST(program.code_offset < 1 << 16 && program.code.start < program.code.end && strlen(program.version) < GO_VERSION_MAX);
}

static int take(void *, size_t i, const struct symbol *frame, int frame_nr)
{
	MUST(i < 3 && frame_nr >= 1 && frame_nr <= SYMBOL_INLINE_MAX);
	for (int f = 0; f < frame_nr; f++) {
		MUST(!frame[f].filename == !frame[f].lineno);
		MUST(!frame[f].first_line || frame[f].lineno);
		MUST(!frame[f].filename || strlen(frame[f].filename) < 1 << 16);
		MUST(!frame[f].function || strlen(frame[f].function) < 1 << 16);
	}
	return 0;
}

static void ask_names(struct sandbox *sandbox, int fd)
{
	const struct source_object object = { .fd = fd, .path = "/usr/bin/x" };
	const struct symbol_source *source = sandbox__source(sandbox);
	const uint64_t offset[] = { 1, 2, 3 };
	struct reason why = { "" };
	int err = source->look_up(source->self, &object, offset, 3, take, NULL, &why);

	if (err)
		expect_refused(err, &why);
}

static const struct {
	void (*ask)(struct sandbox *sandbox, int fd);
	uint32_t kind;
} questions[] = {
	{ ask_table, TABLE }, { ask_probe_info, FACTS }, { ask_returns, RETURNS },
	{ ask_switch, SWITCH }, { ask_names, NAMES }, { ask_traits, TRAITS },
	{ ask_entries, ENTRIES }, { ask_python, PYTHON }, { ask_lines, LINES },
	{ ask_made, MADE }, { ask_go, GO },
};
_Static_assert(ARRAY_SIZE(questions) == GO - NAMES + 1, "every question is here");

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int file = -1; /* 64 KiB */
	struct sandbox_options options = { .debug_root = "/nowhere" };
	size_t kind = size ? (*data & ~KIND_WITHOUT_HEAD) % ARRAY_SIZE(questions) : 0;
	struct sandbox *sandbox;

	if (file < 0) {
		file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
		MUST(file >= 0 && !ftruncate(file, 1 << 16));
	}
	said = size ? data + 1 : NULL;
	said_bytes = size ? size - 1 : 0;
	said_kind = size && *data & KIND_WITHOUT_HEAD ? 0 : questions[kind].kind;
	sandbox = sandbox__open(&options, NULL);
	MUST(sandbox);
	questions[kind].ask(sandbox, file);
	sandbox__close(sandbox);
	return 0;
}
