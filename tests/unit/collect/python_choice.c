// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The choice of domains if none was named. */
#include "collect/sources/python_choice.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "collect.h"
#include "reason.h"

#define BOTH (COLLECTOR_MALLOC | COLLECTOR_PYTHON)

Test(python_choice, heap_where_another_option_excludes_python)
{
	static const char *const probe[] = { "name=pool" };
	static const struct {
		const char *what;
		struct collector_options options;
		uint32_t domains;
		const char *obstacle; /* in the text; NULL: no obstacle */
	} cases[] = {
		{ "nothing else", {}, BOTH, NULL },
		{ "samples", { .sample_bytes = 4096, .max_overhead = 10, .min_size = 64 }, BOTH, NULL },
		{ "children", { .follow_forks = true }, COLLECTOR_MALLOC, "--follow-forks" },
		{ "no return probes", { .no_return_probes = true }, COLLECTOR_MALLOC, "--no-return-probes" },
		{ "an allocator of its own", { .probe = probe, .probe_nr = 1 }, COLLECTOR_MALLOC, "--probe" },
		{ "an injected sampler", { .injects = true }, COLLECTOR_MALLOC, "" },
		{ "a preloaded sampler", { .run_interval_bytes = 4096 }, COLLECTOR_MALLOC, "" },
		{ "all processes", { .system_wide = true }, BOTH, NULL },
		{ "samples of all processes", { .system_wide = true, .sample_bytes = 4096 }, COLLECTOR_MALLOC, "" },
		{ "all processes without return probes", { .system_wide = true, .no_return_probes = true }, COLLECTOR_MALLOC,
		  "--no-return-probes" },
		{ "free lists", { .python_retag = true }, COLLECTOR_PYTHON, NULL },
		{ "pools", { .python_pools = true }, COLLECTOR_PYTHON, NULL },
		{ "frames of C code", { .python_frames = COLLECTOR_FRAMES_NATIVE }, COLLECTOR_PYTHON, NULL },
		{ "frames of both, which is refused later", { .python_frames = COLLECTOR_FRAMES_MIXED, .follow_forks = true },
		  COLLECTOR_PYTHON, NULL },
		{ "frames of both, of all processes", { .python_frames = COLLECTOR_FRAMES_MIXED, .system_wide = true },
		  COLLECTOR_PYTHON, NULL },
		{ "a named domain", { .domains = COLLECTOR_MMAP }, COLLECTOR_MMAP, NULL },
		{ "python by name, which is refused later", { .domains = COLLECTOR_PYTHON, .follow_forks = true },
		  COLLECTOR_PYTHON, NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct collector_options options = cases[i].options;
		struct python_choice choice;

		python_choice_make(&choice, &options);
		cr_expect_eq(options.domains, cases[i].domains, "%s: domains %x", cases[i].what, options.domains);
		cr_expect_eq(!choice.obstacle, !cases[i].obstacle, "%s: an obstacle", cases[i].what);
		if (choice.obstacle && cases[i].obstacle)
			cr_expect(strstr(choice.obstacle, cases[i].obstacle), "%s: %s", cases[i].what, choice.obstacle);
		cr_expect_eq(choice.beside_heap, cases[i].options.system_wide && options.domains == BOTH, "%s: pools", cases[i].what);
		cr_expect_eq(options.python_pools, choice.beside_heap || cases[i].options.python_pools, "%s: pools", cases[i].what);
		cr_expect_eq(choice.is_default, !cases[i].options.domains && !python_option_given(&cases[i].options), "%s: the default",
			     cases[i].what);
	}
}

Test(python_choice, with_an_obstacle_only_who_named_python_is_refused)
{
	static const char obstacle[] = "these need what is not here";
	struct collector_options options = {}, named = { .domains = COLLECTOR_PYTHON };
	struct python_choice choice;
	struct reason why = {};

	python_choice_make(&choice, &options);
	cr_expect_eq(python_choice_give_up(&choice, &options, obstacle, &why), 0);
	cr_expect_eq(options.domains, COLLECTOR_MALLOC);
	cr_expect_str_eq(choice.obstacle, obstacle);
	python_choice_make(&choice, &named);
	cr_expect_eq(python_choice_give_up(&choice, &named, obstacle, &why), -ENOTSUP);
	cr_expect(strstr(why.text, obstacle), "%s", why.text);
}

Test(python_choice, old_versions_are_told_by_their_names)
{
	static const struct {
		const char *path, *why; /* NULL: not old, or not known */
	} cases[] = {
		{ "/usr/bin/python2.7", "CPython 2.7, " }, { "/usr/bin/python2", "CPython 2, " }, { "python2.7-dbg", "CPython 2.7, " },
		{ "/usr/lib/x86_64-linux-gnu/libpython2.7.so.1.0", "CPython 2.7, " }, { "/opt/libpython3.6m.so.1.0", "CPython 3.6, " },
		{ "/usr/bin/python3", NULL }, { "/usr/bin/python3.7", NULL }, { "/usr/bin/python3.11", NULL },
		{ "/usr/lib/libpython3.so", NULL }, { "/usr/bin/python", NULL }, { "/usr/bin/pythonic", NULL },
		{ "/opt/python2.7/bin/gdb", NULL }, { "/usr/bin/python3.14", NULL }, { "/usr/bin/python4.0", NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct reason why = {};

		cr_expect_eq(is_old_python_name(cases[i].path, &why), cases[i].why != NULL, "%s", cases[i].path);
		if (cases[i].why)
			cr_expect(!strncmp(why.text, cases[i].why, strlen(cases[i].why)), "%s: %s", cases[i].path, why.text);
	}
}

Test(python_choice, programs_are_told_by_their_names)
{
	cr_expect(is_python_path("/usr/bin/python3.11"));
	cr_expect(is_python_path("/opt/venv/bin/python (deleted)"));
	cr_expect(!is_python_path("/usr/bin/gdb"));
	cr_expect(!is_python_path("/opt/python3/bin/gdb"));
	cr_expect(!is_python_path("/usr/lib/libpython3.11.so.1.0"));
	cr_expect(is_python_library("/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0"));
	cr_expect(!is_python_library("/usr/lib/python3/dist-packages/x.cpython-311-x86_64-linux-gnu.so"));
}
