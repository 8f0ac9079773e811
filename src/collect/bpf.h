/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BPF_H
#define ALLOCSNAP_COLLECT_BPF_H

/* The generated skeleton, which names types of bpf_types.h without including it. */

#include "shared/bpf_types.h"

#include "allocsnap.skel.h"

#endif
