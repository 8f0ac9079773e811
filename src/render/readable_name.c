// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/readable_name.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine.h"
#include "engine/function_name.h"

#define SEVERAL UINT32_MAX

struct readable_text {
	uint32_t owner; /* the only function that has this text as a name; 0: none, SEVERAL */
	bool is_function;
};

/* ---- the forms of a name ------------------------------------------------------------------------------- */

/* From the shortest to the longest; the last one is the name itself. */
enum readable_form {
	READABLE_SHORT,
	READABLE_WITH_PARAMETERS,
	READABLE_FULL,
};

static char *make_form(const char *function, enum readable_form form)
{
	char *text = strdup(function);

	if (text && form == READABLE_SHORT)
		function_name_copy(text, function, NAME_QUALIFIED);
	if (text && form != READABLE_FULL)
		shorten_template_arguments(text);
	return text;
}

/* ---- the names of one answer ------------------------------------------------------------------------- */

static int add_text(struct readable_names *names, const char *text, uint32_t *ret_id)
{
	int err = strpool_add(&names->texts, text, strlen(text), ret_id);

	while (!err && names->info_nr <= *ret_id)
		err = array_push(names, info, (struct readable_text){});
	return err;
}

static int claim_text(struct readable_names *names, const char *text, uint32_t function)
{
	uint32_t id;
	int err = add_text(names, text, &id);

	if (!err)
		names->info[id].owner = names->info[id].owner ? SEVERAL : function;
	return err;
}

static int add_function(struct readable_names *names, const char *function)
{
	uint32_t id;
	int err = add_text(names, function, &id);

	if (err || names->info[id].is_function || !*function)
		return err;
	names->info[id].is_function = true;
	for (enum readable_form form = READABLE_SHORT; form < READABLE_FULL && !err; form++) {
		char *text = make_form(function, form);

		err = text ? claim_text(names, text, id) : -ENOMEM;
		free(text);
	}
	return err;
}

int readable_names_add(struct readable_names *names, const struct statistic *statistic, size_t nr,
		       enum key_type key_type)
{
	int err = 0;

	for (size_t i = 0; i < nr && !err; i++) {
		if (key_type == KEY_FUNCTION && statistic[i].key &&
		    strncmp(statistic[i].key, "<unknown>", strlen("<unknown>")) != 0)
			err = add_function(names, statistic[i].key);
		for (uint32_t k = 0; k < statistic[i].nframe && !err; k++)
			if (statistic[i].frame[k].function && !statistic[i].frame[k].has_variants)
				err = add_function(names, statistic[i].frame[k].function);
	}
	return err;
}

void readable_names_release(struct readable_names *names)
{
	strpool_release(&names->texts);
	free(names->info);
	*names = (struct readable_names){};
}

static bool is_owned(const struct readable_names *names, const char *text)
{
	uint32_t id = strpool_find(&names->texts, text, strlen(text));

	return id != IDMAP_NONE && names->info[id].owner != SEVERAL;
}

char *readable_name(const struct readable_names *names, const char *function)
{
	uint32_t id = names ? strpool_find(&names->texts, function, strlen(function)) : IDMAP_NONE;
	bool is_known = id != IDMAP_NONE && names->info[id].is_function;
	enum readable_form form = is_known ? READABLE_SHORT : READABLE_FULL;
	char *text = make_form(function, form);

	while (text && form < READABLE_FULL && !is_owned(names, text)) {
		free(text);
		text = make_form(function, ++form);
	}
	return text;
}

/* ---- arguments of templates ---- */

#define LEVEL_MAX 64	/* nesting of brackets; deeper text stays as it is */
#define ARGUMENT_MAX 16 /* a longer list keeps its arguments */

/* A bracket that is open, and the arguments after it so far. */
struct level {
	char close;
	size_t argument[ARGUMENT_MAX]; /* where each begins in the output */
	size_t argument_nr;	       /* ARGUMENT_MAX + 1: too many */
};

/* Reads and writes one text; it never writes ahead of what it has read. */
struct shortening {
	char *text;
	size_t read, len;
	struct level level[LEVEL_MAX];
	size_t level_nr;
};

static bool is_identifier_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_ahead(const struct shortening *s, const char *word)
{
	return !strncmp(s->text + s->read, word, strlen(word));
}

static bool is_at_word(const struct shortening *s)
{
	return !s->read || !is_identifier_char(s->text[s->read - 1]);
}

static void keep_bytes(struct shortening *s, size_t nr)
{
	memmove(s->text + s->len, s->text + s->read, nr);
	s->len += nr;
	s->read += nr;
}

/* ---- the end of a list of arguments --------------------------------------------------------------------- */

/* Whether the text is "std::less<FIRST>". */
static bool is_of_first(const char *text, size_t len, const char *name, const char *first, size_t first_len)
{
	size_t name_len = strlen(name);

	return len == name_len + first_len + 1 && !memcmp(text, name, name_len) &&
	       !memcmp(text + name_len, first, first_len) && text[len - 1] == '>';
}

/* Whether the last argument is what the standard's types have without it. */
static bool is_default(const struct shortening *s, const struct level *level)
{
	static const char *const of_first[] = {
		"std::less<", "std::hash<", "std::equal_to<", "std::char_traits<", "std::default_delete<",
	};
	const char *first = s->text + level->argument[0], *last = s->text + level->argument[level->argument_nr - 1];
	size_t first_len = level->argument[1] - level->argument[0], len = s->text + s->len - last;

	while (first_len && strchr(", ", first[first_len - 1]))
		first_len--;
	if (len > strlen("std::allocator<") && !memcmp(last, "std::allocator<", strlen("std::allocator<")) &&
	    last[len - 1] == '>')
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(of_first); i++)
		if (is_of_first(last, len, of_first[i], first, first_len))
			return true;
	return false;
}

/* Trimming may have left the start of an empty last argument behind the end of the text. */
static bool has_last_argument(const struct shortening *s, const struct level *level)
{
	return level->argument_nr > 1 && level->argument_nr <= ARGUMENT_MAX &&
	       level->argument[level->argument_nr - 1] <= s->len;
}

static void trim_written(struct shortening *s, const char *bytes)
{
	while (s->len && strchr(bytes, s->text[s->len - 1]))
		s->len--;
}

static void drop_defaults(struct shortening *s, struct level *level)
{
	trim_written(s, " ");
	while (has_last_argument(s, level) && is_default(s, level)) {
		s->len = level->argument[--level->argument_nr];
		trim_written(s, ", ");
	}
}

/* "std::basic_string<char>" → "std::string", "std::basic_ostream<wchar_t>" → "std::wostream". */
static void use_short_type(struct shortening *s, size_t list)
{
	static const struct {
		const char *argument, *prefix;
	} kinds[] = {
		{ "<char>", "" }, { "<wchar_t>", "w" }, { "<char8_t>", "u8" }, { "<char16_t>", "u16" },
		{ "<char32_t>", "u32" },
	};
	static const char basic[] = "std::basic_";
	size_t first = list;

	while (first && is_identifier_char(s->text[first - 1]))
		first--;
	if (first < 5 || list - first < 6 || memcmp(s->text + first - 5, basic, strlen(basic)) != 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		size_t prefix_len = strlen(kinds[i].prefix), word = first + strlen("basic_");

		if (s->len - list != strlen(kinds[i].argument) ||
		    memcmp(s->text + list, kinds[i].argument, s->len - list) != 0)
			continue;
		memmove(s->text + first + prefix_len, s->text + word, list - word);
		memcpy(s->text + first, kinds[i].prefix, prefix_len);
		s->len = first + prefix_len + (list - word);
		return;
	}
}

/* ---- brackets ------------------------------------------------------------------------------------------- */

static void open_level(struct shortening *s, char close)
{
	keep_bytes(s, 1);
	s->level[s->level_nr++] = (struct level){ .close = close, .argument = { s->len }, .argument_nr = 1 };
}

static void close_level(struct shortening *s)
{
	struct level *level = &s->level[--s->level_nr];

	if (level->close == '>')
		drop_defaults(s, level);
	keep_bytes(s, 1);
	if (level->close == '>')
		use_short_type(s, level->argument[0] - 1);
}

static void next_argument(struct shortening *s)
{
	struct level *level = &s->level[s->level_nr - 1];

	keep_bytes(s, 1);
	while (s->text[s->read] == ' ')
		keep_bytes(s, 1);
	if (level->argument_nr < ARGUMENT_MAX)
		level->argument[level->argument_nr++] = s->len;
	else
		level->argument_nr = ARGUMENT_MAX + 1;
}

/* In an operator's name < and > are no brackets. */
static void keep_operator(struct shortening *s)
{
	keep_bytes(s, strlen("operator"));
	keep_bytes(s, strspn(s->text + s->read, "<>=-"));
}

/* The namespaces in which the C++ libraries keep versions of their types. */
static bool drop_inline_namespace(struct shortening *s)
{
	static const char *const namespace[] = { "std::__cxx11::", "std::__1::", "std::__ndk1::" };

	for (size_t i = 0; i < ARRAY_SIZE(namespace); i++) {
		if (!is_ahead(s, namespace[i]))
			continue;
		keep_bytes(s, strlen("std::"));
		s->read += strlen(namespace[i]) - strlen("std::");
		return true;
	}
	return false;
}

static void shorten_step(struct shortening *s)
{
	static const char opening[] = "<([{", closing[] = ">)]}";
	char c = s->text[s->read], close = s->level_nr ? s->level[s->level_nr - 1].close : '\0';
	const char *open = strchr(opening, c);
	bool is_list = c == '<' && s->read && is_identifier_char(s->text[s->read - 1]);

	if (is_at_word(s) && is_ahead(s, "operator") && !is_identifier_char(s->text[s->read + strlen("operator")]))
		keep_operator(s);
	else if (c == 's' && is_at_word(s) && drop_inline_namespace(s))
		return;
	else if (open && (c != '<' || is_list))
		open_level(s, closing[open - opening]);
	else if (close && c == close)
		close_level(s);
	else if (c == ',' && close == '>')
		next_argument(s);
	else if (c == '-' && s->text[s->read + 1] == '>')
		keep_bytes(s, 2);
	else
		keep_bytes(s, 1);
}

void shorten_template_arguments(char *text)
{
	struct shortening s = { .text = text };
	size_t len = strlen(text);

	while (s.read < len && s.level_nr < LEVEL_MAX)
		shorten_step(&s);
	keep_bytes(&s, len - s.read);
	text[s.len] = '\0';
}
