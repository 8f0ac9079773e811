/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_JAVA_TYPE_NAME_H
#define ALLOCSNAP_JAVA_TYPE_NAME_H

/*
 * The name of a class as Java's source has it, from the virtual machine's: "[[B" is byte[][], "[Ljava/lang/String;" and
 * "Ljava/lang/String;" are of java.lang.String, which stays as it is. Cut to its room, with a NUL.
 */

#include <stddef.h>

#define JAVA_TYPE_MAX 512

void java_type_name(const char *text, size_t bytes, char ret[JAVA_TYPE_MAX]);

#endif
