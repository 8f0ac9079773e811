/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SANDBOX_WORKER_H
#define ALLOCSNAP_SANDBOX_WORKER_H

/*
 * Runs in the process without privileges: answers questions (messages.h) until the other end is
 * closed. The files that it reads can take this process over, so the other end trusts no answer
 * unchecked.
 */
void serve_questions(int fd);

#endif
