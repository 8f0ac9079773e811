// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "naming_fixture.h"
#include "symbolize/frames.h"
#include "symbolize/naming.h"
#include "symbols_fixture.h"

static const char source[] =
"#include <stdlib.h>\n"
"static inline __attribute__((always_inline)) char *inner(size_t n) { return malloc(n); }\n"
"__attribute__((noinline)) char *outer(size_t n) { char *p = inner(n); *p = 1; return p; }\n"
"__attribute__((noinline)) static char *hidden(size_t n) { char *p = outer(n); *p = 2; return p; }\n"
"char *last(size_t n) { char *p = hidden(n); *p = 3; return p; }\n";

char library_id[64];
uint64_t library_outer, library_hidden;
static uint64_t in_last; /* the return offset of the call in last() */
struct naming_options naming_with;
struct nameless naming_said;

void read_build_id(const char *file, char *ret)
{
	char *text = workshop_output("readelf -n '%s' | sed -n 's/.*Build ID: //p'", file);

	text[strcspn(text, "\n")] = '\0';
	cr_assert_eq(strlen(text), 40);
	strcpy(ret, text);
	free(text);
}

/* The first call behind the function's beginning. */
static uint64_t call_in(const char *function, const struct call *call, size_t call_nr)
{
	char *text = workshop_output("nm full.so | grep ' %s$'", function);
	uint64_t address = strtoul(text, NULL, 16);
	const struct call *first = NULL;

	free(text);
	for (size_t i = 0; i < call_nr; i++)
		if (call[i].return_address > address &&
		    (!first || call[i].return_address < first->return_address))
			first = &call[i];
	cr_assert(first);
	return first->return_offset;
}

static void build_library(void)
{
	struct call *call;
	size_t call_nr;

	workshop_open();
	workshop_write("x.c", source);
	workshop_run("gcc -O2 -g -shared -fPIC -Wl,--build-id -o full.so x.c && mkdir root debug && "
		     "strip -o stripped.so full.so && objcopy --only-keep-debug full.so full.debug");
	call_nr = workshop_calls(workshop_path("full.so"), &call);
	library_outer = call_in("outer", call, call_nr);
	library_hidden = call_in("hidden", call, call_nr);
	in_last = call_in("last", call, call_nr);
	free(call);
	read_build_id(workshop_path("full.so"), library_id);
	naming_with.root_fd = open(workshop_path("root"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	cr_assert(naming_with.root_fd >= 0);
}

static void remove_library(void)
{
	close(naming_with.root_fd);
	workshop_close();
}

TestSuite(naming, .init = build_library, .fini = remove_library, .timeout = 600);

/* ---- a snapshot without names ---------------------------------------------------------------- */

uint32_t add_string(struct snapshot_builder *builder, const char *text)
{
	uint32_t id;

	cr_assert_eq(snapshot_builder__string(builder, text, &id), 0);
	return id;
}

uint32_t add_frame(struct snapshot_builder *builder, struct snap_frame frame)
{
	uint32_t id;

	cr_assert_eq(snapshot_builder__frame(builder, &frame, &id), 0);
	return id;
}

uint32_t add_object(struct snapshot_builder *builder, const char *path, const char *id)
{
	struct snap_object row = { add_string(builder, path), add_string(builder, id) };
	uint32_t object;

	cr_assert_eq(snapshot_builder__object(builder, &row, &object), 0);
	return object;
}

static void log_of(struct snapshot_builder *builder, uint32_t object)
{
	struct snap_probe probe = { .object = object, .function = add_string(builder, "malloc"),
				    .instruction = add_string(builder, "push") };

	cr_assert_eq(snapshot_builder__metadata(builder, "comm", "app"), 0);
	cr_assert_eq(snapshot_builder__counter(builder, SNAP_LOST, "blocks_dropped", 7), 0);
	cr_assert_eq(snapshot_builder__gap(builder, 5, 9), 0);
	cr_assert_eq(snapshot_builder__probe(builder, &probe), 0);
	cr_assert_eq(snapshot_builder__probe_domain(builder, 3), 0);
}

struct snapshot *nameless_snapshot(const char *path, const char *id)
{
	struct snapshot_builder *builder =
		snapshot_builder__new(SNAP_WITH_ALL | SNAP_WITH_CHURN | SNAP_WITH_PROBE_DOMAIN |
				      SNAP_WITH_WEIGHT);
	uint32_t object = add_object(builder, path, id), name = add_string(builder, path), traceback;
	uint32_t frame[] = {
		add_frame(builder, (struct snap_frame){ name, 0, 0, object, library_outer }),
		/* Where a signal came: the instruction itself, not one before it. */
		add_frame(builder, (struct snap_frame){ name, 0, 0, object, library_hidden - 1,
						       SNAP_FRAME_EXACT }),
		add_frame(builder, (struct snap_frame){ name, 0, 0, object, in_last,
						       SNAP_FRAME_GUESSED }),
		add_frame(builder, (struct snap_frame){ add_string(builder, "[anonymous code]"), 0, 0, 0,
						       4711 }),
	};
	const struct snap_churn churn = { 10, 1000, 2, 200 };
	struct snap_trace trace = { 100, 2000, 0x1000, 0, 3, 12, 2.5 };
	struct snapshot *snapshot;

	log_of(builder, object);
	cr_assert_eq(snapshot_builder__traceback(builder, frame, 4, 9, SNAP_TRACEBACK_LIMITED,
						 &traceback), 0);
	cr_assert_eq(snapshot_builder__churn(builder, traceback, &churn), 0);
	trace.traceback = traceback;
	for (int i = 0; i < 300; i++, trace.address++)
		cr_assert_eq(snapshot_builder__trace(builder, &trace), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	return snapshot;
}

struct snapshot *name_large_snapshot(struct snapshot *snapshot, struct naming_counts *ret_counts)
{
	struct naming *naming = naming__new(&naming_with, NULL);
	struct snapshot *named = NULL;

	cr_assert(naming);
	cr_assert_eq(naming__snapshot(naming, snapshot, ret_counts, &named), 0);
	naming__free(naming);
	return named;
}

struct snapshot *name_snapshot(struct snapshot *snapshot, struct naming_counts *ret_counts)
{
	static char why[512];
	struct reason reason = {};
	struct naming *naming = naming__new(&naming_with, &reason);
	struct snapshot *named = NULL;
	struct nameless second;

	cr_assert(naming, "%s", reason.text);
	cr_assert_eq(naming__snapshot(naming, snapshot, ret_counts, &named), 0);
	naming_said = (struct nameless){};
	if (naming__next_nameless(naming, &naming_said)) {
		snprintf(why, sizeof(why), "%s %s: %s", naming_said.path, naming_said.build_id, naming_said.why);
		naming_said.why = why;
		cr_expect_not(naming__next_nameless(naming, &second), "it is told once");
	}
	naming__free(naming);
	return named;
}

/* Names for frames that were recorded without. */

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
		cr_expect_eq(!strstr(nameless.why, "; further such files are not named"), nr < 20, "%s", nameless.why);
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

/* Frames that keep no names: their file is another one, or is no file, or they are too many. */

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

/* ---- places whose inlined calls have places of their own ---------------------------------------- */

static int two_names(const void *, uint32_t, struct symbol ret_symbol[SYMBOL_INLINE_MAX])
{
	ret_symbol[0] = (struct symbol){ "inner", "/src/x.go", 2 };
	ret_symbol[1] = (struct symbol){ "outer", "/src/x.go", 3 };
	return 2;
}

Test(naming, frames_that_are_logical_get_one_name)
{
	struct snapshot_builder *builder = snapshot_builder__new(0);
	uint32_t object = add_object(builder, "/bin/shop", ""), name = add_string(builder, "/bin/shop"), traceback;
	const uint32_t frame[] = {
		add_frame(builder, (struct snap_frame){ name, 0, 0, object, 8, SNAP_FRAME_LOGICAL }),
		add_frame(builder, (struct snap_frame){ name, 0, 0, object, 16 }),
	};
	const bool is_renamed[] = { false, true, true };
	struct renaming renaming = { .names_of = two_names, .is_renamed = is_renamed, .rows_max = 100 };
	struct snapshot *snapshot, *renamed;

	cr_assert_eq(snapshot_builder__traceback(builder, frame, 2, 2, 0, &traceback), 0);
	cr_assert_eq(snapshot_builder__finish(builder, &snapshot), 0);
	renaming.from = snapshot;
	cr_assert_eq(rename_frames(&renaming, &renamed), 0);
	cr_assert_eq(snapshot__tables(renamed)->traceback[traceback].nframe, 3);
	cr_expect_eq(snapshot__tables(renamed)->frame[1].flags, SNAP_FRAME_LOGICAL);
	cr_expect_eq(snapshot__tables(renamed)->frame[2].flags, SNAP_FRAME_INLINE);
	snapshot__close(snapshot);
	snapshot__close(renamed);
}
