// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The callers in rows of leaks: the program's own, with library frames folded. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "render/leak_answer.h"

#define OWN(name, line) { .filename = "a.cc", .lineno = line, .function = name }
#define LIBRARY(name) { .filename = "alloc.h", .lineno = 9, .function = name, .is_library = true }

/* The frames have the oldest first. */
static void expect_row(struct frame_view *frame, uint32_t nframe, unsigned int width, const char *want)
{
	struct leak_place_caller caller = { .frame = frame, .nframe = nframe };
	const struct leak_place place = { &caller, 1, 1, NULL };
	const struct leak_window window = { .span_ns = 60000000000 };
	const struct leak_verdict verdict = { .kind = LEAK_SURE, .survivors = 50, .periods = 8, .span = 8, .allocated = 50,
					      .live = 50 };
	const struct leak_row_line line = { .place = &place, .verdict = &verdict };
	const struct leak_row row = { .kind = LEAK_SURE, .bytes_per_s = 1024, .least_bytes_per_s = 1024, .window = &window,
				      .line = &line, .line_nr = 1 };
	const struct leak_row_style style = { .width = width };
	char *text = NULL, *at;
	size_t len;
	FILE *file = open_memstream(&text, &len);
	struct emitter out = emit_to(file, false);

	emit_leak_row(&out, &style, &row);
	cr_assert_eq(emit_finish(&out), 0);
	fclose(file);
	text[strcspn(text, "\n")] = '\0';
	at = strstr(text, "/min)  ");
	cr_assert(at, "%s", text);
	cr_expect_str_eq(at + strlen("/min)  "), want);
	free(text);
}

#define EXPECT(want, ...) \
	do { \
		struct frame_view frames[] = { __VA_ARGS__ }; \
\
		expect_row(frames, ARRAY_SIZE(frames), 0, want); \
	} while (0)

Test(render_leak_rows, have_own_callers_and_count_the_others)
{
	EXPECT("make at a.cc:1 ← + 2 library frames ← serve at a.cc:2 ← main at a.cc:3",
	       LIBRARY("_start"), OWN("main", 3), OWN("serve", 2), LIBRARY("std::share"), LIBRARY("std::construct"),
	       OWN("make", 1));
	EXPECT("make at a.cc:1 ← serve at a.cc:2 ← + 1 library frame ← main at a.cc:3",
	       OWN("main", 3), LIBRARY("std::sort"), OWN("serve", 2), OWN("make", 1));
	EXPECT("make at a.cc:1 ← main at a.cc:3", LIBRARY("_start"), OWN("main", 3), OWN("make", 1));
}

Test(render_leak_rows, show_libraries_where_nothing_else_is_known)
{
	EXPECT("make at a.cc:1 ← std::construct at alloc.h:9 ← std::share at alloc.h:9",
	       LIBRARY("_start"), LIBRARY("std::share"), LIBRARY("std::construct"), OWN("make", 1));
	EXPECT("make at a.cc:1", OWN("make", 1));
}

#define LONG(name, line) { .filename = "/usr/src/web/shop/cart.cc", .lineno = line, .function = name }

/* "LEAKS     60.0 KiB/min (at least 60.0 KiB/min)  " has 48 columns. */
Test(render_leak_rows, lose_the_folders_of_files_before_callers)
{
	struct frame_view frame[] = { LONG("main", 3), LONG("serve", 2), LONG("shop::Cart::add", 1) };

	expect_row(frame, 3, 200, "shop::Cart::add at /usr/src/web/shop/cart.cc:1 ← serve at /usr/src/web/shop/cart.cc:2 ← "
				  "main at /usr/src/web/shop/cart.cc:3");
	expect_row(frame, 3, 140, "shop::Cart::add at …/cart.cc:1 ← serve at …/cart.cc:2 ← main at …/cart.cc:3");
	expect_row(frame, 3, 90, "shop::Cart::add at …/cart.cc:1 ← serve at…");
}
