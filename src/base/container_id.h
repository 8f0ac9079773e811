/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_CONTAINER_ID_H
#define ALLOCSNAP_BASE_CONTAINER_ID_H

#define CONTAINER_ID_LEN 64

/*
 * The id of the container that a control group belongs to: the last run of exactly 64 lower-case
 * hex digits in its path. Docker, containerd, CRI-O and Podman name their control groups so
 * ("/docker/ID", "…/cri-containerd-ID.scope"). "" if there is none.
 */
const char *container_id(const char *cgroup, char id[CONTAINER_ID_LEN + 1]);

#endif
