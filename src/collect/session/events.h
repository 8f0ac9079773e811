/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_COLLECT_SESSION_EVENTS_H
#define ALLOCSNAP_COLLECT_SESSION_EVENTS_H



#endif
