/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_CONTAINER_ID_H
#define ALLOCSNAP_BASE_CONTAINER_ID_H

#define CONTAINER_ID_LEN 64

/*
 * The container that a control group is of: the last 64 lower-case hex digits, neither more nor fewer, of its path, as
 * Docker, containerd, CRI-O and Podman name them ("/docker/ID", "…/cri-containerd-ID.scope"). "" if there are none.
 */
const char *container_id(const char *cgroup, char id[CONTAINER_ID_LEN + 1]);

#endif
