/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_FILES_FILE_STATE_H
#define ALLOCSNAP_COLLECT_FILES_FILE_STATE_H

#include "collect/files/unused_files.h"
#include "collect/files/written_files.h"

struct file_state {
	struct written_files written;
	struct early_programs early;
};

#endif
