/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_DOMAINS_H
#define ALLOCSNAP_RENDER_DOMAINS_H

/* Domains are numbers; a snapshot may also have names for them. */

#include "render.h"
#include "snapshot.h"

/* "16 (pool)", or "16". A long name is cut. Returns text. */
#define DOMAIN_TEXT_MAX 128
const char *domain_text(char text[DOMAIN_TEXT_MAX], const struct snapshot *snapshot, uint32_t domain);

/* Returns the domain's name of a statistic by domain; NULL if it has none, or is of another kind. */
const char *statistic_domain_name(const struct report *report, const struct statistic *statistic);

#endif
