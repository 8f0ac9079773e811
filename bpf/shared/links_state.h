/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_LINKS_STATE_H
#define ALLOCSNAP_LINKS_STATE_H

/*
 * Which links count events where processes have shared links or links of their own. The loader counts links_state up,
 * one phase after the other, for all processes at once (src/collect/limits/own_links.h). New links are placed in
 * LINKS_SHARED and LINKS_OWN, before they count; the next phase lets them count.
 */
enum links_phase {
	LINKS_SHARED = 0, /* only shared links count */
	LINKS_TO_OWN,	  /* own links count; shared ones only at hits that began before this phase */
	LINKS_OWN,	  /* only own links count */
	LINKS_TO_SHARED,  /* shared links count; own ones only at hits that began before this phase */
	LINKS_PHASES,
};

#define LINKS_PHASE(state) ((enum links_phase)((state) % LINKS_PHASES))

#endif
