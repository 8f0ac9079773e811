// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "process/pods.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/array.h"

void pod_read(struct pod *pod, const char *cgroup, const char *init)
{
	*pod = (struct pod){};
	pod_uid(cgroup, init, pod->uid, pod->container_id);
}

/* ---- names of files ---- */

#define PARTS 3

/* Cuts "A_B_REST". Names of Kubernetes have no "_". */
static bool cut_parts(char *name, const char *part[PARTS])
{
	for (int i = 0; i < PARTS; i++) {
		part[i] = name ? strsep(&name, "_") : "";
		if (!*part[i])
			return false;
	}
	return !name;
}

/* Whether the API server could have given such a name. */
static bool is_api_name(const char *text, size_t most)
{
	size_t len = strlen(text);

	return len < most && len && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-.") == len;
}

/* "NAMESPACE_POD_UID" */
static bool take_pod_folder(struct pod *pod, char *name)
{
	const char *part[PARTS];

	if (!cut_parts(name, part) || strcmp(part[2], pod->uid) || !is_api_name(part[0], POD_LABEL_MAX) ||
	    !is_api_name(part[1], POD_NAME_MAX))
		return false;
	strcpy(pod->namespace, part[0]);
	strcpy(pod->name, part[1]);
	return true;
}

/* "POD_NAMESPACE_CONTAINER-ID.log" of this pod */
static bool take_container_log(struct pod *pod, char *name)
{
	char ending[CONTAINER_ID_LEN + sizeof("-.log")];
	int len = snprintf(ending, sizeof(ending), "-%s.log", pod->container_id), name_len = strlen(name);
	const char *part[PARTS];

	if (name_len < len || strcmp(name + name_len - len, ending))
		return false;
	name[name_len - len] = '\0';
	if (!cut_parts(name, part) || strcmp(part[0], pod->name) || strcmp(part[1], pod->namespace) ||
	    !is_api_name(part[2], POD_LABEL_MAX))
		return false;
	strcpy(pod->container, part[2]);
	return true;
}

/* ---- folders ---- */

/* Links in the host's file system stay in it. */
static DIR *open_host_folder(const char *root, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	int root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC), fd;
	DIR *folder;

	if (root_fd < 0)
		return NULL;
	fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
	close(root_fd);
	folder = fd < 0 ? NULL : fdopendir(fd);
	if (!folder && fd >= 0)
		close(fd);
	return folder;
}

static void search_host_folder(struct pod *pod, const char *root, const char *path, bool (*take)(struct pod *pod, char *name))
{
	DIR *folder = open_host_folder(root, path);
	struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		if (take(pod, entry->d_name))
			break;
	if (folder)
		closedir(folder);
}

void pod_find_names_below(struct pod *pod, const char *root)
{
	if (*pod->uid && !*pod->name)
		search_host_folder(pod, root, "var/log/pods", take_pod_folder);
	if (*pod->name && *pod->container_id && !*pod->container)
		search_host_folder(pod, root, "var/log/containers", take_container_log);
}

void pod_find_names(struct pod *pod)
{
	pod_find_names_below(pod, "/proc/1/root");
	pod_find_names_below(pod, "/");
}
