/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_JAVA_ATTACH_H
#define ALLOCSNAP_JAVA_ATTACH_H

/*
 * HotSpot's attach protocol, from outside (os/posix/attachListener_posix.cpp):
 *
 *	/tmp/.attach_pidN, SIGQUIT ──► it listens at /tmp/.java_pidN ──► "1", a command, three arguments ──► its answer
 *
 * /tmp is the one of the process, in its mount namespace, and N its number in its PID namespace. It takes connections of its
 * own user only: a helper with that user and group makes the connection, and hands it over. SIGQUIT is sent only when
 * jvm_check_signal() allows it, and to a thread that has ended where another program has begun: it ends a process that does not catch it. Time and the length of the answer are limited.
 *
 * Needs the rights of root. Functions return 0 or a negative errno, with a line in *why.
 */

#include <stddef.h>
#include <stdint.h>

#include "java/jvm.h"

#define JVM_ARGUMENTS 3
#define JVM_ANSWER_MAX (32u << 20)

struct jvm_command {
	const char *name, *argument[JVM_ARGUMENTS]; /* NULL: "" */
	uint64_t until_ns; /* monotonic_now_ns() */
};

/*
 * The folder /tmp of the process, for openat(); refused if another user could exchange a file in it. A descriptor, or a
 * negative errno.
 */
int jvm_open_tmp(const struct jvm *jvm, struct reason *why);

/* A new file there, to write, of the process's user. A descriptor, or a negative errno. */
int jvm_create_file(const struct jvm *jvm, int tmp_fd, const char *name, mode_t mode);

/* *ret: the answer behind its first line, a text, which the caller frees. -EPROTO: the command has failed, as *why says. */
int jvm_ask(const struct jvm *jvm, int tmp_fd, const struct jvm_command *command, char **ret, struct reason *why);

#endif
