/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_USER_BPF_H
#define ALLOCSNAP_USER_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include "shared/bpf_types.h"

extern const volatile struct settings settings;

/*
 * The index in user_slots for the user of a process. This is the real user: slots of a set-uid program count for its
 * caller. Two users may share an index, but no program can choose which users share one.
 */
static __always_inline __u32 user_of(struct task_struct *task)
{
	__u32 uid = BPF_CORE_READ(task, cred, uid.val);

	return USER_HASH(uid, settings.hash_seed);
}

#endif
