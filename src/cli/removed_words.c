// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/removed_words.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"

#define PUSH_WATCH "'allocsnap push URL FOLDER --watch"

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
	{ "record", "--push", PUSH_WATCH "' in a process of its own" },
	{ "record", "--push-credentials", PUSH_WATCH " --credentials FILE' in a process of its own" },
	{ "record", "--push-database", PUSH_WATCH " --database NAME' in a process of its own" },
	{ "record", "--push-top", PUSH_WATCH " --top N' in a process of its own" },
	{ "record", "--push-tenant", PUSH_WATCH " --tenant ID' in a process of its own" },
	{ "record", "--push-ca-file", PUSH_WATCH " --ca-file FILE' in a process of its own" },
	{ "record", "--push-max-waiting", PUSH_WATCH " --max-waiting N' in a process of its own" },
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
