/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_CGROUP_PATH_H
#define ALLOCSNAP_BASE_CGROUP_PATH_H

/*
 * The path of a control group from the top of the hierarchy: what rules compare with and what snapshots say, in whatever
 * namespace the recorder is. The kernel shows a path relative to the root of the reader's namespace ("/../OTHER" beside it).
 * root: where that root is; "" or NULL: unknown, and the path stays as it is shown. NULL is ENOMEM.
 */
char *cgroup_from_top(const char *root, const char *shown);

/*
 * The functions below read containers and pods out of such a path, by its form alone. Its maker chooses a group's name, so this is as
 * true as the host's root is. Each function returns its second argument, "" if the path says nothing.
 */

#define CONTAINER_ID_LEN 64
#define CONTAINER_RUNTIME_MAX 32
#define POD_UID_LEN 36

/*
 * The id of the container: the last run of exactly 64 lower-case hex digits. Docker, containerd, CRI-O and Podman name
 * their control groups so ("/docker/ID", "…/cri-containerd-ID.scope").
 */
const char *container_id(const char *cgroup, char id[CONTAINER_ID_LEN + 1]);

/* The name that the maker of the group has put before the id: "cri-containerd" in "…/cri-containerd-ID.scope". */
const char *container_runtime(const char *cgroup, char runtime[CONTAINER_RUNTIME_MAX]);

/*
 * The UID of a Kubernetes pod, with "-" in it: "pod" and a UUID at the end of a group's name, where systemd has "_" for
 * "-" ("…/kubepods-burstable-pod12345678_….slice", "/kubepods/burstable/pod12345678-…"), or the 32 hex digits of a static
 * pod. The outermost such group counts: a process in a pod may make groups below its own. In a container's group there is no pod,
 * unless that container is the node: PID 1 is in it. init: its path.
 * Stores in id the container that the pod's group has, "" if the process is in none.
 */
const char *pod_uid(const char *cgroup, const char *init, char uid[POD_UID_LEN + 1], char id[CONTAINER_ID_LEN + 1]);

#endif
