// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "file_fixture.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_replace.h"

static char home[PATH_MAX];
char files_directory[] = "/tmp/allocsnap-files.XXXXXX";

void files_enter(void)
{
	cr_assert(getcwd(home, sizeof(home)));
	cr_assert(mkdtemp(files_directory));
	cr_assert_eq(chdir(files_directory), 0);
	cr_assert_eq(mkdir("d", 0700), 0);
}

void files_leave(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf %s", files_directory);
	if (chdir(home) || system(command))
		abort();
}

int write_text(FILE *out, const void *text)
{
	fputs(text, out);
	return 0;
}

int write_half(FILE *out, const void *text)
{
	fputs(text, out);
	fflush(out);
	return -EXDEV;
}

const char *text_of(const char *path)
{
	static char text[256];
	FILE *file = fopen(path, "r");

	cr_assert(file, "%s: %s", path, strerror(errno));
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	return text;
}

int name_nr(const char *path)
{
	DIR *dir = opendir(path);
	int nr = -2; /* . and .. */

	cr_assert(dir);
	while (readdir(dir))
		nr++;
	closedir(dir);
	return nr;
}

void put(const char *path, const char *text)
{
	struct reason why = { "" };

	cr_assert_eq(file_replace(path, write_text, text, &why), 0, "%s", why.text);
	cr_expect_str_eq(text_of(path), text);
}
