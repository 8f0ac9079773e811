/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_BASE_HOST_NAME_H
#define ALLOCSNAP_BASE_HOST_NAME_H

#define HOST_NAME_BYTES 254 /* a name of DNS, with its NUL */

/*
 * The machine's name in snapshots and folders: ALLOCSNAP_HOST of the environment, for a container that has another name than its
 * machine, or the kernel's. Returns name.
 */
char *own_host_name(char name[HOST_NAME_BYTES]);

#endif
