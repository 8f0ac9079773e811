// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/sources/python_choice.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "collect.h"

/* The first option that does not go together with the domain python. */
static const char *find_obstacle(const struct collector_options *options)
{
	const struct {
		bool is_given;
		const char *obstacle;
	} rows[] = {
		{ options->injects || options->run_interval_bytes || (options->system_wide && options->sample_bytes), "" },
		{ options->follow_forks && !options->system_wide, "these are recorded of single processes only, without --follow-forks" },
		{ options->no_return_probes, "these need return probes, which --no-return-probes forbids" },
		{ options->probe_nr, "these are recorded without --probe only" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].is_given)
			return rows[i].obstacle;
	return NULL;
}

const char *python_option_given(const struct collector_options *options)
{
	return options->python_retag ? "--retag" : options->python_pools ? "--sample pools" : options->python_frames ? "--frames" : NULL;
}

void python_choice_make(struct python_choice *choice, struct collector_options *options)
{
	*choice = (struct python_choice){};
	if (options->domains)
		return;
	if (python_option_given(options)) {
		options->domains = COLLECTOR_PYTHON;
		return;
	}
	choice->is_default = true;
	choice->obstacle = find_obstacle(options);
	options->domains = COLLECTOR_MALLOC | (choice->obstacle ? 0 : COLLECTOR_PYTHON);
	choice->beside_heap = options->python_pools = options->system_wide && !choice->obstacle;
}

int python_options_check(const struct collector_options *options, struct reason *why)
{
	const char *given = python_option_given(options);

	if (given && !(options->domains & COLLECTOR_PYTHON))
		return reason_set(why, -EINVAL, "%s needs --domain python: leave out --domain, or add python to it",
				  given);
	given = given ?: "--domain python";
	if (options->domains & COLLECTOR_PYTHON && options->follow_forks && !options->system_wide)
		return reason_set(why, -EINVAL, "%s records Python's objects, which excludes --follow-forks; "
				  "'allocsnap record --domain python' records children, too", given);
	if (options->domains & COLLECTOR_PYTHON && options->no_return_probes)
		return reason_set(why, -EINVAL, "%s records Python's objects, which needs return probes: not with --no-return-probes",
				  given);
	if (options->python_pools && options->python_retag)
		return reason_set(why, -EINVAL, "--sample pools and --retag exclude each other: pools have no objects");
	if (options->python_no_retag && options->python_retag)
		return reason_set(why, -EINVAL, "--retag and --no-retag exclude each other");
	if (options->python_frames == COLLECTOR_FRAMES_MIXED && options->unwinder == COLLECTOR_UNWIND_FP)
		return reason_set(why, -EINVAL, "--frames mixed needs unwind tables: not with --unwind fp");
	return 0;
}

int python_choice_give_up(struct python_choice *choice, struct collector_options *options, const char *obstacle, struct reason *why)
{
	if (!choice->is_default)
		return reason_set(why, -ENOTSUP, "Python's objects cannot be recorded (--domain python): %s", obstacle);
	choice->obstacle = obstacle;
	options->domains &= ~COLLECTOR_PYTHON;
	choice->beside_heap = options->python_pools = false;
	return 0;
}

bool is_python_path(const char *path)
{
	return !strncmp(path_name(path), "python", strlen("python"));
}

bool is_python_library(const char *path)
{
	return !strncmp(path_name(path), "libpython", strlen("libpython"));
}

bool is_old_python_name(const char *path, struct reason *why)
{
	const char *name = path_name(path);
	unsigned int major, minor = 0;
	int nr;

	name += strncmp(name, "lib", 3) ? 0 : 3;
	nr = sscanf(name, "python%1u.%2u", &major, &minor);
	if (nr < 1 || major > 3 || (major == 3 && (nr < 2 || minor > 6)))
		return false;
	if (nr < 2)
		reason_set(why, 0, "CPython %u, which was never tested: 3.9 to 3.14 are known", major);
	else
		reason_set(why, 0, "CPython %u.%u, which was never tested: 3.9 to 3.14 are known", major, minor);
	return true;
}
