/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SESSION_PYTHON_TOLD_H
#define ALLOCSNAP_COLLECT_SESSION_PYTHON_TOLD_H

#include <stddef.h>

/* For libbpf: a code object that the kernel side tells of. */
int note_python_code(void *collector, void *record, size_t bytes);

#endif
