// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/removed_words.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"

static const struct {
	const char *command; /* NULL: the value of an option */
	const char *word, *instead;
} removed[] = {
	{ NULL, "csv", "'allocsnap stats --json', of which jq makes rows (docs/formats.md)" },
	{ NULL, "markdown", "the format text" },
	{ NULL, "dhat", "pprof" },
	{ "convert", ".csv", "'allocsnap stats SNAP --json'" },
	{ "convert", ".md", "'allocsnap stats SNAP'" },
	{ "convert", ".dhat.json", ".pb.gz" },
	{ "record", "--push", "'allocsnap push URL FOLDER --watch' in a process of its own" },
	{ "record", "--push-credentials", "'allocsnap push URL FOLDER --watch --credentials FILE' in a process of its own" },
	{ "record", "--push-database", "'allocsnap push URL FOLDER --watch --database NAME' in a process of its own" },
	{ "record", "--push-top", "'allocsnap push URL FOLDER --watch --top N' in a process of its own" },
	{ "record", "--push-tenant", "'allocsnap push URL FOLDER --watch --tenant ID' in a process of its own" },
	{ "record", "--push-ca-file", "'allocsnap push URL FOLDER --watch --ca-file FILE' in a process of its own" },
	{ "record", "--push-max-waiting", "'allocsnap push URL FOLDER --watch --max-waiting N' in a process of its own" },
	{ "record", "--exclude-comm", "--exclude comm=GLOB" },
	{ "record", "--exclude-exe", "--exclude exe=GLOB" },
	{ "record", "--exclude-cgroup", "--exclude cgroup=GLOB" },
	{ "record", "--exclude-uid", "--exclude uid=USER" },
	{ "record", "--exclude-pid", "--exclude pid=PID" },
	{ "fleet", "trend", "'allocsnap fleet leaks', which says which lines grow and for how long" },
};

static bool is_equal(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

const char *removed_word_format(char text[REMOVED_TEXT_MAX], const char *command, const char *word, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(removed); i++) {
		if (!is_equal(removed[i].command, command) || strlen(removed[i].word) != len ||
		    memcmp(removed[i].word, word, len))
			continue;
		snprintf(text, REMOVED_TEXT_MAX, "%s was removed; use %s", removed[i].word, removed[i].instead);
		return text;
	}
	return NULL;
}
