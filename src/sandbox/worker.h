/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_SANDBOX_WORKER_H
#define ALLOCSNAP_SANDBOX_WORKER_H

/*
 * Runs in the process without privileges: answers questions (messages.h) until the other end is
 * closed. The files that it reads can take this process over, so the other end trusts no answer
 * unchecked.
 */
void serve_questions(int fd);

/* Inside the reader: each function answers a question whose head was received. 0: continue. */

struct channel;
struct direct;

int serve_names(const struct channel *channel, struct direct *direct, int fd);
int serve_table(const struct channel *channel, int fd);
int serve_facts(const struct channel *channel, int fd);
int serve_returns(const struct channel *channel, int fd);
int serve_switch(const struct channel *channel, int fd);
int serve_traits(const struct channel *channel, int fd);
int serve_entries(const struct channel *channel, int fd);
int serve_python(const struct channel *channel, int fd);
int serve_lines(const struct channel *channel, int fd);

#endif
