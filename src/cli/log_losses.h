/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_CLI_LOG_LOSSES_H
#define ALLOCSNAP_CLI_LOG_LOSSES_H

/*
 * Logs what was lost while recording, for commands about snapshots that `show` cannot tell about: many, or temporary ones.
 * Each loss has a line with its meaning, as in `show`; those that this version does not know share one. 0 or -ENOMEM.
 */

#include "render.h"

int log_losses(const struct report_loss *loss, size_t nr);

/* The losses of a snapshot. */
int log_snapshot_losses(const struct snapshot *snapshot);

#endif
