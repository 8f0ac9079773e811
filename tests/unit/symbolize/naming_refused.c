// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Frames that keep no names: their file is another one, or is no file, or they are too many. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "naming_fixture.h"
#include "symbols_fixture.h"

/* No frame gets a name, and the report gives the reason. */
static void expect_nameless(const char *path, const char *id, const char *why)
{
	struct snapshot *snapshot = nameless_snapshot(path, id);
	struct naming_counts counts;

	cr_expect_null(name_snapshot(snapshot, &counts));
	cr_expect_eq(counts.unnamed, 4);
	cr_expect_eq(counts.named, 0);
	cr_assert(naming_said.path, "%s: nothing was said", path);
	cr_expect(strstr(naming_said.why, path) && strstr(naming_said.why, id) && strstr(naming_said.why, why), "%s",
		  naming_said.why);
	snapshot__close(snapshot);
}

Test(naming, refuses_a_file_of_another_build)
{
	char other[64];

	workshop_run("mkdir root/lib && gcc -O1 -g -shared -fPIC -Wl,--build-id -o root/lib/x.so x.c");
	read_build_id(workshop_path("root/lib/x.so"), other);
	expect_nameless("/lib/x.so", library_id, other);
	workshop_run("objcopy --remove-section .note.gnu.build-id full.so root/lib/x.so");
	expect_nameless("/lib/x.so", library_id, "no build-id now");
	expect_nameless("/lib/x.so", "", "without a build-id");
}

/* A FIFO would wait for a writer; a name would lead out of the root. */
Test(naming, opens_only_regular_files_below_the_root)
{
	workshop_run("mkdir root/lib && mkfifo root/lib/fifo && ln -s '%s' root/lib/link && "
		     "ln -s /lib/link root/lib/loop && ln -s /dev/null root/lib/null",
		     workshop_path("full.so"));
	expect_nameless("/lib/fifo", library_id, "no regular file");
	expect_nameless("/lib", library_id, "no regular file");
	expect_nameless("/lib/link", library_id, "No such file");
	expect_nameless("/lib/null", library_id, "No such file");
	expect_nameless("/../full.so", library_id, "No such file");
	expect_nameless("lib/x.so", library_id, "No such file");
	expect_nameless("[vdso]", library_id, "No such file");
}

/* Opening a file of the kernel (/proc/kmsg) may have side effects, even if stat() calls it regular. */
Test(naming, opens_no_files_of_kernel_file_systems)
{
	int below = naming_with.root_fd;

	naming_with.root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	expect_nameless("/proc/version", library_id, "its file system is the kernel's own");
	expect_nameless("/sys/kernel/notes", library_id, "its file system is the kernel's own");
	close(naming_with.root_fd);
	naming_with.root_fd = below;
}

Test(naming, refuses_a_file_that_is_no_object)
{
	workshop_run("cp x.c root/x.so");
	expect_nameless("/x.so", library_id, "not an ELF file");
	workshop_run("head -c 100 full.so >root/x.so");
	expect_nameless("/x.so", library_id, "");
}

/* A snapshot from anywhere can have as many as it likes. */
Test(naming, opens_no_more_objects_than_the_limit)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	struct snapshot *snapshot;
	struct naming_counts counts;
	char path[32];

	for (int i = 0; i < NAMING_OBJECTS_MAX + 3; i++) {
		snprintf(path, sizeof(path), "/lib/%d.so", i);
		add_frame(builder, (struct snap_frame){ add_string(builder, path), 0, 0,
						       add_object(builder, path, library_id), 1 });
	}
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	cr_expect_null(name_large_snapshot(snapshot, &counts));
	cr_expect_eq(counts.left_out, 3);
	snapshot__close(snapshot);
}

/* ---- long tracebacks -------------------------------------------------------------------------- */

static struct snapshot *deep(uint32_t nframe)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	uint32_t object = add_object(builder, "/x.so", library_id), traceback;
	uint32_t id = add_frame(builder, (struct snap_frame){ add_string(builder, "/x.so"), 0, 0, object,
							     library_outer });
	uint32_t *frame = calloc(nframe, sizeof(*frame));
	struct snapshot *snapshot;

	for (uint32_t i = 0; i < nframe; i++)
		frame[i] = id;
	cr_assert_eq(snapshot_builder__traceback(builder, frame, nframe, UINT32_MAX, 0, &traceback), 0);
	cr_assert_eq(snapshot_builder__traceback(builder, frame, 1, 1, 0, &traceback), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	free(frame);
	workshop_run("cp full.so root/x.so");
	return snapshot;
}

/* A traceback that would exceed the limit with its inlined calls stays unnamed; the next traceback is named. */
Test(naming, adds_no_more_frames_than_a_traceback_may_have)
{
	struct snapshot *snapshot = deep(SNAP_TRACEBACK_MAX), *named;
	const struct snapshot_tables *t;
	struct naming_counts counts;

	named = name_snapshot(snapshot, &counts);
	cr_assert(named);
	t = snapshot__tables(named);
	cr_assert_eq(t->traceback_nr, 3);
	cr_expect_eq(t->traceback[1].nframe, SNAP_TRACEBACK_MAX);
	cr_expect_eq(t->traceback[1].total_nframe, UINT32_MAX);
	cr_expect_eq(t->traceback[1].flags, 0);
	for (uint32_t i = 0; i < SNAP_TRACEBACK_MAX; i++)
		cr_assert_not(t->frame[t->traceback_frame[t->traceback[1].first + i]].function);
	cr_expect_eq(t->traceback[2].nframe, 2);
	cr_expect(t->frame[t->traceback_frame[t->traceback[2].first]].function);
	snapshot__close(named);
	snapshot__close(snapshot);
}

Test(naming, adds_no_more_rows_than_can_be_read)
{
	struct snapshot *snapshot = deep(1000), *named = NULL;
	struct naming_counts counts;
	struct naming *naming;

	for (int more = 0; more < 2; more++) {
		naming_with.rows_max = 2001 + more;
		naming = naming__new(&naming_with, NULL);
		cr_assert(naming);
		cr_expect_eq(naming__snapshot(naming, snapshot, &counts, &named), more ? 0 : -EFBIG);
		cr_expect_eq(!named, !more);
		naming__free(naming);
	}
	snapshot__close(named);
	snapshot__close(snapshot);
}
