/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PROCESS_PODS_H
#define ALLOCSNAP_PROCESS_PODS_H

/*
 * The pod of Kubernetes and the container that a process is in, by what the host says: the path of the control group has the
 * pod's UID and the container's id, and the kubelet names log files after both. Only their names are read, and nothing that
 * the process could write itself.
 */

#include "base/cgroup_path.h"

#define POD_NAME_MAX 254 /* with its NUL, as the next */
#define POD_LABEL_MAX 64

/* A text is "" if it is not known. */
struct pod {
	char uid[POD_UID_LEN + 1], container_id[CONTAINER_ID_LEN + 1];
	char name[POD_NAME_MAX], namespace[POD_LABEL_MAX], container[POD_LABEL_MAX];
};

/* Reads the path of a process, and the one of PID 1 (base/cgroup_path.h). Leaves names to pod_find_names(). */
void pod_read(struct pod *pod, const char *cgroup, const char *init);

/*
 * Looks for names that are missing, below the root of PID 1 and below our own, where a container has the host's folders if it may
 * not see PID 1's. The kubelet writes a container's name after it has started it, so names may come later.
 */
void pod_find_names(struct pod *pod);

/* The same below one root. */
void pod_find_names_below(struct pod *pod, const char *root);

#endif
