// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * floor KIND PID LIBC: empty programs on a process's malloc (entry and return) and free, until
 * standard input ends. Prints "ready" when they are attached; exits with 3 if the kernel has no KIND.
 *	session		sessions, at the instructions where a recording would place them
 *	uretprobe	uprobes and uretprobes by perf_event_open(), at the same
 *	first		these at the functions' first instructions
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/reason.h"
#include "collect/probe/uprobe_multi.h"
#include "elf/allocators.h"
#include "elf/probe_info.h"
#include "floor.skel.h"

#define EXIT_NOT_THERE 3

struct places {
	const char *libc;
	pid_t pid;
	bool is_placed;
	struct probe_info facts;
};

static void must(int err, const char *what)
{
	if (err >= 0)
		return;
	fprintf(stderr, "floor: %s: %s\n", what, strerror(-err));
	exit(1);
}

static uint64_t offset_of(const struct places *places, const char *name)
{
	for (uint32_t i = 0; i < places->facts.function_nr; i++) {
		const struct object_function *function = &places->facts.function[i];

		if (function->name < allocator_function_nr &&
		    !strcmp(allocator_functions[function->name].name, name))
			return function->offset +
			       (places->is_placed ? function->placement.offset : 0);
	}
	must(-ENOENT, name);
	return 0;
}

static void attach_multi(const struct bpf_program *program, const struct places *places,
			 const char *name)
{
	uint64_t offset = offset_of(places, name), cookie = 0;
	const struct uprobe_multi one = {
		.path = places->libc,
		.pid = places->pid,
		.attach_type = bpf_program__expected_attach_type(program),
		.nr = 1,
		.offset = &offset,
		.cookie = &cookie,
	};

	must(uprobe_multi_attach(bpf_program__fd(program), &one), name);
}

static void attach_perf(const struct bpf_program *program, const struct places *places,
			const char *name, bool at_return)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .retprobe = at_return);

	if (!bpf_program__attach_uprobe_opts(program, places->pid, places->libc,
					     offset_of(places, name), &opts))
		must(-errno, name);
}

static struct floor_bpf *load(bool sessions)
{
	struct floor_bpf *bpf = floor_bpf__open();

	must(bpf ? 0 : -errno, "open");
	bpf_program__set_autoload(bpf->progs.both_ends, sessions);
	bpf_program__set_autoload(bpf->progs.only_entry, sessions);
	bpf_program__set_expected_attach_type(bpf->progs.both_ends, UPROBE_SESSION_ATTACH_TYPE);
	bpf_program__set_expected_attach_type(bpf->progs.only_entry, UPROBE_MULTI_ATTACH_TYPE);
	must(floor_bpf__load(bpf), "load");
	return bpf;
}

static void attach_sessions(const struct places *places)
{
	struct floor_bpf *bpf;

	if (!uprobe_session_works()) {
		fprintf(stderr, "floor: this kernel has no uprobe sessions (6.13)\n");
		exit(EXIT_NOT_THERE);
	}
	bpf = load(true);
	attach_multi(bpf->progs.both_ends, places, "malloc");
	attach_multi(bpf->progs.only_entry, places, "free");
}

static void attach_pairs(const struct places *places)
{
	struct floor_bpf *bpf = load(false);

	attach_perf(bpf->progs.perf_return, places, "malloc", true);
	attach_perf(bpf->progs.perf_entry, places, "malloc", false);
	attach_perf(bpf->progs.perf_entry, places, "free", false);
}

static const struct kind {
	const char *name;
	bool is_placed;
	void (*attach)(const struct places *places);
} kinds[] = {
	{ "session", true, attach_sessions },
	{ "uretprobe", true, attach_pairs },
	{ "first", false, attach_pairs },
};

static const struct kind *find_kind(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	return NULL;
}

int main(int argc, char **argv)
{
	const struct kind *kind = argc == 4 ? find_kind(argv[1]) : NULL;
	struct places places = {};
	struct reason why = { "" };
	int fd;

	if (!kind) {
		fprintf(stderr, "usage: floor session|uretprobe|first PID LIBC\n");
		return 2;
	}
	places.pid = atoi(argv[2]);
	places.libc = argv[3];
	places.is_placed = kind->is_placed;
	fd = open(places.libc, O_RDONLY | O_CLOEXEC);
	must(fd < 0 ? -errno : fd, places.libc);
	must(probe_info_read(fd, NULL, &places.facts, &why), "object_facts_read");
	kind->attach(&places);
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &(char){ 0 }, 1) > 0)
		;
	return 0;
}
