// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Names of classes, and the table of classes that a Java virtual machine prints. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "census/java_census.h"
#include "java/type_name.h"

Test(java_text, names_are_those_of_the_source)
{
	static const struct {
		const char *text, *name;
	} rows[] = {
		{ "[B", "byte[]" }, { "[[J", "long[][]" }, { "[Ljava/lang/String;", "java.lang.String[]" },
		{ "Ljava/util/HashMap$Node;", "java.util.HashMap$Node" }, { "java.lang.Object", "java.lang.Object" },
		{ "[Ljava.lang.Object;", "java.lang.Object[]" }, { "B", "B" }, { "", "" }, { "[", "[]" }, { "[?", "?[]" }, { "L;", "L;" },
	};
	char name[JAVA_TYPE_MAX];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		java_type_name(rows[i].text, strlen(rows[i].text), name);
		cr_assert_str_eq(name, rows[i].name);
	}
}

Test(java_text, long_names_are_cut)
{
	char text[4 * JAVA_TYPE_MAX], name[JAVA_TYPE_MAX];

	memset(text, '[', sizeof(text));
	java_type_name(text, sizeof(text), name);
	cr_assert_lt(strlen(name), JAVA_TYPE_MAX);
	memset(text, 'x', sizeof(text));
	java_type_name(text, sizeof(text), name);
	cr_assert_eq(strlen(name), JAVA_TYPE_MAX - 1);
}

Test(java_text, a_table_of_classes_is_read)
{
	struct java_census census = {};

	cr_assert_eq(java_census_parse(" num     #instances         #bytes  class name (module)\n"
				       "-------------------------------------------------------\n"
				       "   1:         13671       18189472  [B (java.base@17.0.15)\n"
				       "   2:             7            168  Leak$Session\n"
				       "Total         13678       18189640\n", &census), 0);
	cr_assert_eq(census.class_nr, 2);
	cr_assert_str_eq(census.class[0].name, "byte[]");
	cr_assert_eq(census.class[0].bytes, 18189472);
	cr_assert_str_eq(census.class[1].name, "Leak$Session");
	cr_assert_eq(census.count, 13678);
	cr_assert_eq(census.bytes, 18189640);
	java_census_release(&census);
}

Test(java_text, other_text_has_no_classes)
{
	struct java_census census = {};

	cr_assert_eq(java_census_parse("", &census), -ENODATA);
	cr_assert_eq(java_census_parse("1: 2\n:::\n 1: 2 3 \n1: -", &census), -ENODATA);
	java_census_release(&census);
}

Test(java_text, a_table_that_was_cut_is_refused)
{
	static const char rows[] = "   1:            10            160  [B\n   2:             7            168  Leak$Session\n";
	struct java_census census = {}, other = {};

	cr_assert_eq(java_census_parse(rows, &census), -EBADMSG);
	java_census_release(&census);
	cr_assert_eq(java_census_parse("   1:            10            160  [B\nTotal            17            328\n", &other), -EBADMSG);
	java_census_release(&other);
}
