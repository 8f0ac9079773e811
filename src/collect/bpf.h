/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_BPF_H
#define ALLOCSNAP_COLLECT_BPF_H

/* Probes are placed in code of x86-64. */

/* The types of the generated skeleton, which names types of these headers without including them. */

#include <bpf/libbpf.h>

#include "shared/bpf_types.h"
#include "shared/filter_types.h"
#include "shared/python_calls.h"

#include "allocsnap.types.h"

#endif
