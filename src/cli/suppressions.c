// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/suppressions.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd_select.h"

#define SUPPRESSIONS_MOST 10000

static char *trim(char *line)
{
	size_t len = strcspn(line, "#");

	line[len] = '\0';
	while (len && isspace((unsigned char)line[len - 1]))
		line[--len] = '\0';
	return line + strspn(line, " \t\r\n\v\f");
}

static int add_suppression(struct chosen *chosen, const char *pattern)
{
	struct filter *grown = reallocarray(chosen->filter, chosen->filter_nr + 1, sizeof(*grown));
	char *owned = strdup(pattern);

	if (grown)
		chosen->filter = grown;
	if (!grown || !owned) {
		free(owned);
		return log_failure("out of memory");
	}
	chosen->filter[chosen->filter_nr++] =
		(struct filter){ .all_frames = true, .any_pattern = owned, .owned = owned };
	return EXIT_DONE;
}

static int read_suppression_lines(FILE *file, const char *path, struct chosen *chosen)
{
	int status = EXIT_DONE;
	char *line = NULL;
	size_t room = 0, nr = 0;
	ssize_t len;

	while (!status && (len = getline(&line, &room, file)) >= 0) {
		if (strlen(line) != (size_t)len)
			status = log_failure("%s: a NUL byte in it: not a file of patterns", path);
		else if (*trim(line) && ++nr > SUPPRESSIONS_MOST)
			status = log_failure("%s: more than %d suppressions", path, SUPPRESSIONS_MOST);
		else if (*trim(line))
			status = add_suppression(chosen, trim(line));
	}
	if (!status && ferror(file))
		status = log_failure("%s: %s", path, strerror(errno));
	free(line);
	return status;
}

int suppressions_read(const char *path, struct chosen *chosen)
{
	FILE *file = fopen(path, "re");
	int status;

	if (!file)
		return log_failure("%s: %s", path, strerror(errno));
	status = read_suppression_lines(file, path, chosen);
	fclose(file);
	return status;
}
