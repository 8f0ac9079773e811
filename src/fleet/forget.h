/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_FLEET_FORGET_H
#define ALLOCSNAP_FLEET_FORGET_H

#include "fleet/catalogue.h"
#include "fleet/selection.h"

/*
 * Removes the cohort's snapshots from a catalogue that is open to write, all or none. Names stay, and so does what is
 * noted about files: a file that is still there is not indexed again. Returns 0, or a negative errno and a line in *why.
 */
int catalogue_forget(struct catalogue *catalogue, const struct cohort *cohort, struct reason *why);

#endif
