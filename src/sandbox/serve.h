/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_PARSER_SERVE_H
#define ALLOCSNAP_PARSER_SERVE_H

/*
 * In the process without privileges: answers questions (messages.h) until who asks is gone. What
 * it reads may make it do anything; so nothing that it says is believed unchecked.
 */
void serve(int fd);

#endif
