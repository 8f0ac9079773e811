/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef FLEET_DATA_FILES_H
#define FLEET_DATA_FILES_H

#include "model.h"

/* Writes all snapshots of a host below options.dir, which exists. Returns their bytes. */
uint64_t files_make_host(const struct model *model, uint32_t host);

#endif
