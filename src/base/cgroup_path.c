// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "base/cgroup_path.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char hex_digits[] = "0123456789abcdef";

/* ---- the whole path ---- */

char *cgroup_from_top(const char *root, const char *shown)
{
	static const char up[] = "/..";
	size_t up_len = strlen(up), len = root ? strlen(root) : 0;
	char *path;

	if (!len || *shown != '/')
		return strdup(shown);
	for (; !strncmp(shown, up, up_len) && (!shown[up_len] || shown[up_len] == '/'); shown += up_len)
		while (len && root[--len] != '/')
			;
	while (len && root[len - 1] == '/')
		len--;
	if (!shown[strspn(shown, "/")])
		shown = len ? "" : "/";
	return asprintf(&path, "%.*s%s", (int)len, root, shown) < 0 ? NULL : path;
}

/* ---- containers ---- */

/* The first run of exactly 64 hex digits, or NULL. */
static const char *first_container_id(const char *text)
{
	for (const char *at = text + strcspn(text, hex_digits); *at; at += strcspn(at, hex_digits)) {
		size_t len = strspn(at, hex_digits);

		if (len == CONTAINER_ID_LEN)
			return at;
		at += len;
	}
	return NULL;
}

/* The last one. */
static const char *find_container_id(const char *cgroup)
{
	const char *found = NULL;

	for (const char *at = first_container_id(cgroup); at; at = first_container_id(at + CONTAINER_ID_LEN))
		found = at;
	return found;
}

static const char *copy_id(char id[CONTAINER_ID_LEN + 1], const char *found)
{
	*id = '\0';
	if (found)
		strncat(id, found, CONTAINER_ID_LEN);
	return id;
}

const char *container_id(const char *cgroup, char id[CONTAINER_ID_LEN + 1])
{
	return copy_id(id, find_container_id(cgroup));
}

const char *container_runtime(const char *cgroup, char runtime[CONTAINER_RUNTIME_MAX])
{
	const char *id = find_container_id(cgroup), *begin, *end;

	*runtime = '\0';
	if (!id || id == cgroup || (id[-1] != '-' && id[-1] != ':'))
		return runtime;
	end = begin = id - 1;
	while (begin > cgroup && begin[-1] != '/' && begin[-1] != ':')
		begin--;
	if (end - begin < CONTAINER_RUNTIME_MAX)
		strncat(runtime, begin, end - begin);
	return runtime;
}

/* ---- pods ---- */

/* Whether the text of this length has the form of a UID. */
static bool is_pod_uid(const char *text, size_t len)
{
	static const char form[] = "00000000-0000-0000-0000-000000000000";

	if (len != POD_UID_LEN)
		return len == 32 && strspn(text, hex_digits) >= len;
	for (size_t i = 0; i < len; i++)
		if (form[i] == '-' ? text[i] != '-' && text[i] != '_' : !strchr(hex_digits, text[i]))
			return false;
	return true;
}

/* The UID at the end of a group's name; *len is the name's length, and then the UID's. NULL: it has no UID. */
static const char *find_pod_uid(const char *name, size_t *len)
{
	static const size_t lengths[] = { POD_UID_LEN, 32 };
	size_t name_len = *len;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t before = name_len - lengths[i];

		if (name_len < lengths[i] + 3 || strncmp(name + before - 3, "pod", 3) ||
		    (before > 3 && name[before - 4] != '-') || !is_pod_uid(name + before, lengths[i]))
			continue;
		*len = lengths[i];
		return name + before;
	}
	return NULL;
}

/* Whether the group at `name` lies in the group of a container, and PID 1 does not. */
static bool is_in_container(const char *cgroup, const char *name, const char *init)
{
	const char *id = first_container_id(cgroup);

	return id && id < name && strncmp(cgroup, init, id + CONTAINER_ID_LEN - cgroup);
}

const char *pod_uid(const char *cgroup, const char *init, char uid[POD_UID_LEN + 1], char id[CONTAINER_ID_LEN + 1])
{
	static const char slice[] = ".slice", ends[] = "/:";

	*uid = *id = '\0';
	for (const char *name = cgroup + strspn(cgroup, ends), *next; *name; name = next) {
		size_t len = strcspn(name, ends), slice_len = strlen(slice);
		const char *found;

		next = name + len + strspn(name + len, ends);
		if (len > slice_len && !strncmp(name + len - slice_len, slice, slice_len))
			len -= slice_len;
		found = find_pod_uid(name, &len);
		if (!found)
			continue;
		if (is_in_container(cgroup, name, init))
			break;
		strncat(uid, found, len);
		for (char *gap = strchr(uid, '_'); gap; gap = strchr(gap, '_'))
			*gap = '-';
		copy_id(id, first_container_id(next));
		break;
	}
	return uid;
}
