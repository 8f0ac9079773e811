// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "collect/process/maps_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "collect/process/proc.h"

bool maps_parse_line(const char *text, struct maps_line *line)
{
	unsigned int major, minor;
	int path_at = 0;

	if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &line->start, &line->end, line->perms, &line->offset, &major, &minor,
		   &line->inode, &path_at) < 7)
		return false;
	line->dev = (uint64_t)major << 32 | minor;
	line->path = text + path_at;
	return true;
}

bool maps_find_line(pid_t pid, uint64_t address, struct maps_line *ret)
{
	FILE *maps = proc_open(pid, "maps");
	struct maps_line found = {};
	char *line = NULL;
	size_t alloc = 0;

	while (maps && found.end <= address && getline(&line, &alloc, maps) > 0)
		if (!maps_parse_line(line, &found))
			break;
	free(line);
	if (maps)
		fclose(maps);
	if (address < found.start || address >= found.end)
		return false;
	found.path = "";
	*ret = found;
	return true;
}

/*
 * Looks at the fourth character after the addresses: "7f…-7f… r-xp". Most lines are not code, and are not parsed.
 */
static bool is_code(const char *line)
{
	size_t addresses = strspn(line, "0123456789abcdef-");

	return line[addresses] == ' ' && line[addresses + 1] && line[addresses + 2] &&
	       line[addresses + 3] == 'x';
}

struct text {
	char *byte;
	size_t byte_nr, byte_alloc;
};

static int append_line(struct text *text, const char *line, size_t len)
{
	int err = array_reserve(&text->byte, &text->byte_alloc, text->byte_nr + len + 1);

	if (err)
		return err;
	memcpy(text->byte + text->byte_nr, line, len);
	text->byte_nr += len;
	text->byte[text->byte_nr] = '\0';
	return 0;
}

static int read_code(FILE *maps, struct text *text, bool *ret_is_cut)
{
	char *line = NULL;
	size_t alloc = 0;
	ssize_t len;
	int err = append_line(text, "", 0);

	*ret_is_cut = false;
	while (!err && !*ret_is_cut && (len = getline(&line, &alloc, maps)) > 0) {
		if (!is_code(line))
			continue;
		*ret_is_cut = text->byte_nr + len > MAPS_TEXT_MAX;
		if (!*ret_is_cut)
			err = append_line(text, line, len);
	}
	if (!err && ferror(maps))
		err = -errno;
	free(line);
	return err;
}

char *maps_read_code(pid_t pid, bool *ret_is_cut)
{
	struct text text = {};
	FILE *maps = proc_open(pid, "maps");
	int err;

	if (!maps)
		return NULL;
	err = read_code(maps, &text, ret_is_cut);
	fclose(maps);
	if (!err)
		return text.byte;
	free(text.byte);
	errno = -err;
	return NULL;
}
