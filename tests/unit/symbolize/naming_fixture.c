// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "naming_fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
