// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Names for frames that were recorded without. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "naming_fixture.h"
#include "symbolize/naming.h"
#include "symbols_fixture.h"

static void expect_frame(const struct snapshot *snapshot, uint32_t at, const char *function,
			 const char *filename, uint32_t lineno, uint32_t flags)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	uint32_t id = t->traceback_frame[t->traceback[t->trace_traceback[0]].first + at];
	const struct snap_frame *frame = &t->frame[id];

	cr_expect_str_eq(snapshot__string(snapshot, frame->function), function);
	cr_expect_str_eq(snapshot__string(snapshot, frame->filename), filename);
	cr_expect_eq(frame->lineno, lineno, "frame %u: line %u", at, frame->lineno);
	cr_expect_eq(frame->flags, flags, "frame %u: flags %u", at, frame->flags);
	cr_expect_eq(t->frame_first_line ? t->frame_first_line[id] : 0, lineno,
		     "each is declared and calls in one line");
}

static void expect_all_named(const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	const struct snap_traceback *traceback = &t->traceback[t->trace_traceback[0]];
	const char *file = workshop_path("x.c");

	cr_assert_eq(traceback->nframe, 5);
	expect_frame(snapshot, 0, "inner", file, 2, SNAP_FRAME_INLINE);
	expect_frame(snapshot, 1, "outer", file, 3, 0);
	expect_frame(snapshot, 2, "hidden", file, 4, SNAP_FRAME_EXACT);
	expect_frame(snapshot, 3, "last", file, 5, SNAP_FRAME_GUESSED);
	expect_frame(snapshot, 4, "", "[anonymous code]", 0, 0);
	cr_expect_eq(traceback->total_nframe, 10, "an inlined call is one more");
	cr_expect_eq(traceback->flags, SNAP_TRACEBACK_LIMITED);
}

static void expect_rest_kept(const struct snapshot *snapshot)
{
	const struct snapshot_tables *t = snapshot__tables(snapshot);
	struct snap_trace trace;

	cr_expect_str_eq(snapshot__metadata(snapshot, "comm"), "app");
	cr_expect_eq(snapshot__counter(snapshot, "blocks_dropped"), 7);
	cr_assert_eq(t->gap_nr, 1);
	cr_expect_eq(t->gap[0].end_ns, 9);
	cr_assert_eq(t->probe_nr, 1);
	cr_expect_eq(t->probe_domain[0], 3);
	cr_expect_str_eq(snapshot__string(snapshot, t->probe[0].function), "malloc");
	cr_expect_str_eq(snapshot__string(snapshot, t->object[t->probe[0].object].build_id), library_id);
	cr_assert_eq(t->trace_nr, 300);
	trace = snapshot__trace(snapshot, 299);
	cr_expect_eq(t->churn[trace.traceback].temporary_bytes, 200);
	cr_expect_eq(trace.size, 100);
	cr_expect_eq(trace.address, 0x1000 + 299);
	cr_expect_eq(trace.birth_ns, 2000);
	cr_expect_eq(trace.domain, 3);
	cr_expect_eq(trace.thread, 12);
	cr_expect_eq(trace.weight, 2.5);
}

Test(naming, reads_the_object_at_its_path)
{
	struct snapshot *snapshot = nameless_snapshot("/lib/x.so", library_id), *named, *again;
	struct naming_counts counts;

	workshop_run("mkdir root/lib && cp full.so root/lib/x.so");
	named = name_snapshot(snapshot, &counts);
	cr_assert(named);
	cr_expect_eq(counts.unnamed, 4);
	cr_expect_eq(counts.named, 3);
	cr_expect_null(naming_said.path);
	expect_all_named(named);
	expect_rest_kept(named);
	again = name_snapshot(named, &counts);
	cr_expect_null(again, "there is nothing new to say");
	cr_expect_eq(counts.unnamed, 1);
	cr_expect_eq(counts.named + counts.lined, 0);
	snapshot__close(named);
	snapshot__close(snapshot);
}

/* Nothing says which file it was, so the names count as a loss, also when more of them come later. */
Test(naming, takes_what_is_at_the_path_only_if_asked)
{
	struct snapshot *snapshot = nameless_snapshot("/lib/x.so", ""), *half, *named;
	struct naming_counts counts;

	workshop_run("mkdir root/lib && cp stripped.so root/lib/x.so");
	cr_expect_null(name_snapshot(snapshot, &counts));
	cr_expect_eq(counts.by_path, 0);
	naming_with.by_path = true;
	half = name_snapshot(snapshot, &counts);
	cr_assert(half);
	cr_expect(counts.by_path && counts.by_path == counts.named, "%" PRIu64 " of %" PRIu64, counts.by_path, counts.named);
	cr_expect_eq(snapshot__counter(half, "frames_named_by_path"), counts.by_path);
	cr_expect_eq(snapshot__counter(half, "blocks_dropped"), 7);
	workshop_run("cp full.so root/lib/x.so");
	named = name_snapshot(half, &counts);
	cr_assert(named);
	cr_expect_gt(snapshot__counter(named, "frames_named_by_path"), snapshot__counter(half, "frames_named_by_path"));
	snapshot__close(named);
	snapshot__close(half);
	snapshot__close(snapshot);
}

static void install_debug_file(void)
{
	static int fd;

	workshop_run("mkdir -p debug/.build-id/%.2s && cp full.debug debug/.build-id/%.2s/%s.debug",
		     library_id, library_id, library_id + 2);
	fd = open(workshop_path("debug"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	cr_assert(fd >= 0);
	naming_with.debug_dir_fd = &fd;
	naming_with.debug_dir_nr = 1;
}

/* Frames that got only a function at first get their line when a debug file is there. */
Test(naming, uses_a_debug_file_in_another_directory)
{
	struct snapshot *snapshot = nameless_snapshot("/lib/x.so", library_id), *half, *named;
	struct naming_counts counts;

	workshop_run("mkdir root/lib && cp stripped.so root/lib/x.so");
	half = name_snapshot(snapshot, &counts);
	cr_assert(half);
	cr_expect_eq(counts.named, 2, "the exported functions");
	expect_frame(half, 0, "outer", "/lib/x.so", 0, 0);
	expect_frame(half, 1, "", "/lib/x.so", 0, SNAP_FRAME_EXACT);
	cr_assert(naming_said.path);
	cr_expect(strstr(naming_said.why, ": stripped, and no debug file of it is here"), "%s", naming_said.why);
	cr_expect(naming_said.has_some);
	install_debug_file();
	named = name_snapshot(half, &counts);
	cr_assert(named);
	cr_expect_null(naming_said.path);
	cr_expect_eq(counts.unnamed, 2);
	cr_expect_eq(counts.named, 1);
	cr_expect_eq(counts.lined, 2);
	expect_all_named(named);
	expect_rest_kept(named);
	snapshot__close(named);
	snapshot__close(half);
	snapshot__close(snapshot);
}

/* The debug file calls the function "outer"; the snapshot was recorded where only an alias is exported. */
Test(naming, keeps_the_recorded_name_of_a_function)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct snap_frame frame = { .offset = library_outer };
	struct snapshot *snapshot, *named;
	struct naming_counts counts;
	struct snap_trace trace = { .size = 1 };
	uint32_t id;

	workshop_run("mkdir root/lib && cp full.so root/lib/x.so");
	frame.object = add_object(builder, "/lib/x.so", library_id);
	frame.function = add_string(builder, "outer_alias");
	id = add_frame(builder, frame);
	cr_assert_eq(snapshot_builder__traceback(builder, &id, 1, 1, 0, &trace.traceback), 0);
	cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	named = name_snapshot(snapshot, &counts);
	cr_assert(named);
	cr_expect_eq(counts.lined, 1);
	expect_frame(named, 0, "inner", workshop_path("x.c"), 2, SNAP_FRAME_INLINE);
	expect_frame(named, 1, "outer_alias", workshop_path("x.c"), 3, 0);
	snapshot__close(named);
	snapshot__close(snapshot);
}

/* A machine has many. */
Test(naming, reports_some_of_many_stripped_objects)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct naming *naming = naming__new(&naming_with, NULL);
	struct snapshot *snapshot, *named = NULL;
	struct nameless nameless;
	struct naming_counts counts;
	unsigned int nr = 0;
	char path[32];

	cr_assert(naming);
	workshop_run("mkdir root/lib && cp stripped.so root/lib/1.so && cd root/lib && "
		     "for i in $(seq 2 30); do ln 1.so $i.so; done");
	for (int i = 1; i <= 30; i++) {
		snprintf(path, sizeof(path), "/lib/%d.so", i);
		add_frame(builder, (struct snap_frame){ 0, 0, 0, add_object(builder, path, library_id), library_hidden });
	}
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	cr_assert_eq(naming__snapshot(naming, snapshot, &counts, &named), 0);
	cr_expect_eq(counts.named, 0);
	while (naming__next_nameless(naming, &nameless)) {
		nr++;
		cr_expect_eq(!strstr(nameless.why, "; more that are so are not told"), nr < 20, "%s", nameless.why);
	}
	cr_expect_eq(nr, 20);
	naming__free(naming);
	snapshot__close(snapshot);
}

/* One in a directory that comes first, of another object, does not hide the right one. */
Test(naming, chooses_the_right_one_of_two_debug_files)
{
	struct snapshot *snapshot = nameless_snapshot("/lib/x.so", library_id), *named;
	struct naming_counts counts;
	int fd[2];

	workshop_run("mkdir root/lib && cp stripped.so root/lib/x.so");
	install_debug_file();
	workshop_run("mkdir -p bad/.build-id/%.2s && cp x.c bad/.build-id/%.2s/%s.debug", library_id,
		     library_id, library_id + 2);
	fd[0] = open(workshop_path("bad"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd[1] = naming_with.debug_dir_fd[0];
	naming_with.debug_dir_fd = fd;
	naming_with.debug_dir_nr = 2;
	named = name_snapshot(snapshot, &counts);
	cr_assert(named);
	expect_all_named(named);
	close(fd[0]);
	snapshot__close(named);
	snapshot__close(snapshot);
}

/* The object is .build-id/ab/cdef…, and its own path has no file or another file. */
Test(naming, reads_an_object_among_the_debug_files)
{
	struct snapshot *snapshot = nameless_snapshot("/lib/x.so", library_id), *named;
	struct naming_counts counts;

	install_debug_file();
	workshop_run("cp stripped.so debug/.build-id/%.2s/%s", library_id, library_id + 2);
	named = name_snapshot(snapshot, &counts);
	cr_assert(named);
	cr_expect_null(naming_said.path);
	expect_all_named(named);
	snapshot__close(named);
	snapshot__close(snapshot);
}

static int open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int nr = 0;

	cr_assert(dir);
	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr;
}

/* A file is recognized by its contents' identity at any path, and is not kept open. */
Test(naming, recognizes_a_file_at_two_paths)
{
	struct snapshot *snapshot[] = {
		nameless_snapshot("/lib/x.so", library_id), nameless_snapshot("/usr/lib/x.so", library_id),
	};
	struct reason why = {};
	struct naming *naming = naming__new(&naming_with, &why);
	struct naming_counts counts;
	struct snapshot *named;
	int before = open_files();

	cr_assert(naming, "%s", why.text);
	workshop_run("mkdir -p root/usr/lib && ln -s usr/lib root/lib && cp full.so root/usr/lib/x.so");
	for (int i = 0; i < 4; i++) {
		cr_assert_eq(naming__snapshot(naming, snapshot[i % 2], &counts, &named), 0);
		cr_assert(named);
		expect_all_named(named);
		snapshot__close(named);
		cr_expect_eq(open_files(), before, "descriptors after snapshot %d", i);
	}
	cr_expect_eq(naming->fd_nr, 1, "files");
	naming__free(naming);
	snapshot__close(snapshot[0]);
	snapshot__close(snapshot[1]);
}
