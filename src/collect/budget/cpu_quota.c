// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/budget/cpu_quota.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* ---- the files -------------------------------------------------------------------------------- */

/* False: the file is not there, or has something else. */
static bool read_quota_file(const char *folder, const char *name, const char *form, uint64_t *first, uint64_t *second)
{
	char path[PATH_MAX];
	FILE *file;
	int nr;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return false;
	file = fopen(path, "re");
	nr = file ? fscanf(file, form, first, second) : 0;
	if (file)
		fclose(file);
	return nr == (second ? 2 : 1);
}

static uint64_t quota_of_period(uint64_t quota_us, uint64_t period_us)
{
	unsigned __int128 ns = (unsigned __int128)quota_us * SECOND_NS / (period_us ?: 1);

	return !period_us || ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

/* "max 100000" is no quota. */
static uint64_t quota_of_unified(const char *folder)
{
	uint64_t quota_us, period_us;

	return read_quota_file(folder, "cpu.max", "%" SCNu64 " %" SCNu64, &quota_us, &period_us) ?
		       quota_of_period(quota_us, period_us) : UINT64_MAX;
}

/* -1 is no quota. */
static uint64_t quota_of_first_version(const char *folder)
{
	uint64_t quota_us, period_us;

	return read_quota_file(folder, "cpu.cfs_quota_us", "%" SCNu64, &quota_us, NULL) && quota_us < INT64_MAX &&
	       read_quota_file(folder, "cpu.cfs_period_us", "%" SCNu64, &period_us, NULL) ?
		       quota_of_period(quota_us, period_us) : UINT64_MAX;
}

/* ---- hierarchies ------------------------------------------------------------------------------ */

static bool has_controller(const char *list, const char *name)
{
	size_t bytes = strlen(name);

	for (const char *at = list; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, bytes) && (!at[bytes] || at[bytes] == ','))
			return true;
	}
	return false;
}

static bool is_unified(const char *type, const char *options)
{
	(void)options;
	return !strcmp(type, "cgroup2");
}

static bool is_first_version(const char *type, const char *options)
{
	return !strcmp(type, "cgroup") && has_controller(options, "cpu");
}

static const struct {
	bool (*is_it)(const char *type, const char *options);
	const char *controllers; /* in /proc/PID/cgroup */
	uint64_t (*quota_ns)(const char *folder);
} kinds[QUOTA_HIERARCHIES] = {
	{ is_unified, "", quota_of_unified },
	{ is_first_version, "cpu", quota_of_first_version },
};

/* "36 35 0:30 ROOT POINT options - TYPE SOURCE OPTIONS": the names have no space, but \040. Those with one do not count. */
static int note_mount(struct cpu_quotas *quotas, char *line)
{
	char *right = strstr(line, " - "), *root, *point, *type, *options;

	if (!right)
		return 0;
	*right = '\0';
	for (int i = 0; i < 3; i++)
		strsep(&line, " ");
	root = strsep(&line, " ");
	point = strsep(&line, " ");
	right += 3;
	type = strsep(&right, " ");
	strsep(&right, " ");
	options = right ?: "";
	for (int i = 0; i < QUOTA_HIERARCHIES && root && point; i++) {
		struct quota_hierarchy *hierarchy = &quotas->hierarchy[i];

		bool is_better = !hierarchy->point || (*hierarchy->root && !strcmp(root, "/"));

		if (!is_better || !kinds[i].is_it(type, options))
			continue;
		free(hierarchy->point);
		free(hierarchy->root);
		hierarchy->point = strdup(point);
		hierarchy->root = strdup(strcmp(root, "/") ? root : "");
		if (!hierarchy->point || !hierarchy->root)
			return -ENOMEM;
	}
	return 0;
}

int cpu_quotas_find(struct cpu_quotas *quotas, char *mountinfo)
{
	char *line;
	int err = 0;

	*quotas = (struct cpu_quotas){};
	while (!err && (line = strsep(&mountinfo, "\n")))
		err = note_mount(quotas, line);
	return err;
}

void cpu_quotas_release(struct cpu_quotas *quotas)
{
	for (int i = 0; i < QUOTA_HIERARCHIES; i++) {
		free(quotas->hierarchy[i].point);
		free(quotas->hierarchy[i].root);
	}
	*quotas = (struct cpu_quotas){};
}

/* ---- a process -------------------------------------------------------------------------------- */

/* The folder of a group. False: it is not below what is mounted. */
static bool find_group_folder(const struct quota_hierarchy *hierarchy, const char *group, char folder[PATH_MAX])
{
	size_t bytes = strlen(hierarchy->root);

	if (strncmp(group, hierarchy->root, bytes) || (group[bytes] && group[bytes] != '/') || strstr(group, "/.."))
		return false;
	return snprintf(folder, PATH_MAX, "%s%s", hierarchy->point, group + bytes) < PATH_MAX;
}

/* The least quota of a group and of those above it. */
static uint64_t least_quota_ns(int kind, const struct quota_hierarchy *hierarchy, const char *group)
{
	size_t point_bytes = strlen(hierarchy->point);
	uint64_t least = UINT64_MAX;
	char folder[PATH_MAX];

	if (!find_group_folder(hierarchy, group, folder))
		return UINT64_MAX;
	do {
		uint64_t ns = kinds[kind].quota_ns(folder);

		least = ns < least ? ns : least;
		*strrchr(folder, '/') = '\0';
	} while (strlen(folder) >= point_bytes);
	return least;
}

/* "NUMBER:CONTROLLERS:GROUP" */
static uint64_t quota_of_line(const struct cpu_quotas *quotas, char *line)
{
	uint64_t least = UINT64_MAX;
	char *controllers;

	strsep(&line, ":");
	controllers = strsep(&line, ":");
	for (int i = 0; i < QUOTA_HIERARCHIES && line; i++) {
		bool is_it = *kinds[i].controllers ? has_controller(controllers, kinds[i].controllers) : !*controllers;
		uint64_t ns = is_it && quotas->hierarchy[i].point ?
				      least_quota_ns(i, &quotas->hierarchy[i], line) : UINT64_MAX;

		least = ns < least ? ns : least;
	}
	return least;
}

uint64_t cpu_quota_ns(const struct cpu_quotas *quotas, const char *groups)
{
	char *text = strdup(groups), *rest = text, *line;
	uint64_t least = UINT64_MAX;

	while (text && (line = strsep(&rest, "\n"))) {
		uint64_t ns = quota_of_line(quotas, line);

		least = ns < least ? ns : least;
	}
	free(text);
	return least;
}
