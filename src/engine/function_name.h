/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef ALLOCSNAP_ENGINE_FUNCTION_NAME_H
#define ALLOCSNAP_ENGINE_FUNCTION_NAME_H

/*
 * Takes demangled names of functions apart: C, C++ and Rust. Names are untrusted text. A name that does not follow the
 * rules of its language gives some text without memory errors, in time linear in its length.
 *
 *	void shop::Cache<int, std::less<int> >::put<char>(char const&) [clone .isra.0]
 *	NAME_QUALIFIED: shop::Cache<int, std::less<int> >::put<char>
 *	NAME_BASE:      shop::Cache::put
 *
 * Both leave out return type, parameters (of enclosing functions, too), qualifiers after them, ABI tags, the symbol's
 * version and the compiler's suffixes. NAME_BASE leaves out template arguments as well.
 *
 * Of Rust's <TYPE as TRAIT>::method it takes the side that was written in the crate of the method: TYPE::method if TYPE
 * is a path outside of Rust's own libraries, otherwise TRAIT::method. <[u8]>::to_vec stays as it is.
 */

#include <stdbool.h>
#include <stddef.h>

enum name_form {
	NAME_QUALIFIED,
	NAME_BASE,
};

/* Writes the form to out, which has room for strlen(name) + 1 bytes. Returns its length. */
size_t function_name_copy(char *out, const char *name, enum name_form form);

/* Whether the name has a list of parameters, as names demangled from C++ have. scratch: as for function_name_copy(). */
bool function_name_has_parameters(const char *name, char *scratch);

/*
 * Whether a pattern (engine/pattern.h) means the function. A pattern is compared with NAME_BASE; a pattern with '<'
 * with NAME_QUALIFIED; a pattern with '(' also with the whole name. scratch has room for strlen(name) + 1 bytes.
 */
bool function_name_matches(const char *pattern, const char *name, char *scratch);

/* Whether two names have the same base. False if there is no memory. */
bool function_names_share_base(const char *a, const char *b);

#endif
