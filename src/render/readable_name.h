/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_RENDER_READABLE_NAME_H
#define ALLOCSNAP_RENDER_READABLE_NAME_H

/*
 * Names of functions for people: "shop::Cache<std::string, int>::put" instead of "void shop::Cache<std::__cxx11::
 * basic_string<char, std::char_traits<char>, std::allocator<char> >, int, std::less<…> >::put(…)". They leave out
 * return type, parameters and default template arguments, and use the short names of the standard's types. Two
 * functions of one answer that would then have the same name get their parameters, or if that does not help, their
 * names in full.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/idmap.h"
#include "engine.h"

/* The names in one answer. A zeroed struct is an empty one. */
struct readable_names {
	struct strpool texts;
	struct readable_text *info; /* by id of text */
	size_t info_nr, info_alloc;
};

/* Adds the functions of rows. 0 or -ENOMEM. */
int readable_names_add(struct readable_names *names, const struct statistic *statistic, size_t nr,
		       enum key_type key_type);
void readable_names_release(struct readable_names *names);

/*
 * The name to show. names NULL: the name in full; so is the name of a function that was not added. The caller frees it.
 * NULL: no memory.
 */
char *readable_name(const struct readable_names *names, const char *function);

/* Leaves out default template arguments of a name in any form, in place. It becomes no longer. */
void shorten_template_arguments(char *text);

#endif
