// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "engine/function_name.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "engine/pattern.h"

#define IMPL_DEPTH_MAX 4 /* nesting of Rust's <<A as B>::C as D>::f; deeper types stay as they are */

/* A name on its way from text to out. */
struct name_scan {
	const char *name, *at, *end;
	const char *no_suffix; /* only other text follows each '.' up to here */
	char *out;
	size_t len;
	enum name_form form;
	bool keeps_spaces;   /* a space is part of the name, not the end of a return type */
	bool has_parameters; /* a list of parameters was seen */
};

static bool starts_with_text(const char *at, const char *prefix)
{
	return !strncmp(at, prefix, strlen(prefix));
}

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* ---- groups of brackets --------------------------------------------------------------------- */

/* In ( [ { only these three kinds count: < and > may be operators there. */
static const char *skip_brackets(const char *at)
{
	size_t depth = 0;

	for (; *at; at++) {
		if (strchr("([{", *at))
			depth++;
		else if (strchr(")]}", *at) && !--depth)
			return at + 1;
	}
	return at;
}

/* The length of the symbol of an operator's name, without the word itself; 0: it is none. */
static size_t operator_symbol_len(const char *at)
{
	static const char *const symbol[] = {
		"->*", "<=>", "<<=", ">>=", "()", "[]", "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||",
		"++",  "--",  "+=",  "-=",  "*=", "/=", "%=", "^=", "&=", "|=", "+",  "-",  "*",  "/",	"%",
		"^",   "&",   "|",   "~",   "!",  "=",	"<",  ">",  ",",
	};

	for (size_t i = 0; i < ARRAY_SIZE(symbol); i++)
		if (starts_with_text(at, symbol[i]))
			return strlen(symbol[i]);
	return 0;
}

static bool is_word_at(const char *first, const char *at, const char *word)
{
	size_t len = strlen(word);

	return (at == first || !is_name_char(at[-1])) && starts_with_text(at, word) && !is_name_char(at[len]);
}

/* The end of the group that begins at `at` with one of < ( [ {, or the end of the text. */
static const char *function_name_skip_group(const char *at)
{
	const char *first = at;
	size_t depth = 0;

	if (*at != '<')
		return skip_brackets(at);
	while (*at) {
		if (strchr("([{", *at)) {
			at = skip_brackets(at);
			continue;
		}
		if (*at == 'o' && is_word_at(first, at, "operator")) {
			at += strlen("operator");
			at += operator_symbol_len(at);
			continue;
		}
		depth += *at == '<';
		if (*at == '>' && at[-1] != '-' && !--depth)
			return at + 1;
		at++;
	}
	return at;
}

/* ---- pieces of a name ------------------------------------------------------------------------- */

static void scan_copy(struct name_scan *scan, const char *end)
{
	const char *last = end < scan->end ? end : scan->end;

	if (last > scan->at) {
		memcpy(scan->out + scan->len, scan->at, last - scan->at);
		scan->len += last - scan->at;
	}
	scan->at = end;
}

/* "::<u8>" loses its colons, too. */
static void scan_template_arguments(struct name_scan *scan)
{
	const char *end = function_name_skip_group(scan->at);

	if (scan->form == NAME_QUALIFIED || starts_with_text(scan->at, "<lambda")) {
		scan_copy(scan, end);
		return;
	}
	if (scan->len >= 2 && !memcmp(scan->out + scan->len - 2, "::", 2))
		scan->len -= 2;
	scan->at = end;
}

/* "operator std::string", up to its parameters. */
static void scan_conversion(struct name_scan *scan)
{
	scan_copy(scan, scan->at + 1);
	while (scan->at < scan->end) {
		if (*scan->at == '<')
			scan_template_arguments(scan);
		else if (*scan->at == '(' && (scan->at[1] == '*' || scan->at[1] == '&'))
			scan_copy(scan, skip_brackets(skip_brackets(scan->at)));
		else if (*scan->at == '(')
			return;
		else
			scan_copy(scan, scan->at + 1);
	}
}

static void scan_operator(struct name_scan *scan)
{
	static const char *const word[] = { " new[]", " new", " delete[]", " delete", " co_await" };
	size_t len;

	scan_copy(scan, scan->at + strlen("operator"));
	len = operator_symbol_len(scan->at);
	if (starts_with_text(scan->at, "\"\""))
		len = scan->at[2] == ' ' ? 3 : 2;
	for (size_t i = 0; !len && i < ARRAY_SIZE(word); i++)
		if (starts_with_text(scan->at, word[i]) && !is_name_char(scan->at[strlen(word[i])]))
			len = strlen(word[i]);
	if (!len && *scan->at == ' ') {
		scan_conversion(scan);
		return;
	}
	scan_copy(scan, scan->at + len);
	if (len && scan->at[0] == ' ' && scan->at[1] == '<') { /* "operator< <int>" */
		if (scan->form == NAME_BASE)
			scan->at++;
		else
			scan_copy(scan, scan->at + 1);
	}
}

/* The text after what may follow parameters: " const", " &", " [clone .isra.0]", "[abi:cxx11]". */
static const char *skip_qualifiers(const char *at)
{
	static const char *const word[] = { " const", " volatile", " &&", " &", " noexcept", "[abi:" };
	size_t i = 0;

	while (i < ARRAY_SIZE(word)) {
		bool is_there = starts_with_text(at, word[i]);

		if (is_there)
			at = *at == '[' ? skip_brackets(at) : at + strlen(word[i]);
		i = is_there ? 0 : i + 1;
	}
	return at;
}

/* Whether the name goes on after the parenthesis. "f(int)::{lambda()#1}" does: the parameters are left out. */
static bool scan_parenthesis(struct name_scan *scan)
{
	if (starts_with_text(scan->at, "(anonymous namespace)")) {
		scan_copy(scan, scan->at + strlen("(anonymous namespace)"));
		return true;
	}
	if (!scan->len && (scan->at[1] == '*' || scan->at[1] == '&')) { /* "int (*f(char))(long)" */
		scan->at += 1 + strspn(scan->at + 1, "*& ");
		return true;
	}
	if (!scan->len) {
		scan->at = skip_brackets(scan->at);
		return true;
	}
	if (scan->out[scan->len - 1] == '.') { /* Go's "runtime.(*mheap).alloc" */
		scan_copy(scan, skip_brackets(scan->at));
		return true;
	}
	scan->has_parameters = true;
	scan->at = skip_qualifiers(skip_brackets(scan->at));
	return starts_with_text(scan->at, "::");
}

/*
 * Whether only suffixes of the compiler's copies follow: ".part.0", ".isra.1.cold", ".123". Where other text ends a row
 * of them, it ends the row from each later '.' as well: no text is read twice.
 */
static bool is_compiler_suffix(struct name_scan *scan)
{
	const char *at = scan->at;

	static const char *const word[] = {
		".cold", ".constprop", ".isra", ".llvm", ".localalias", ".lto_priv", ".part", ".clone",
	};

	if (at <= scan->no_suffix)
		return false;
	while (*at == '.') {
		size_t len = 1 + strspn(at + 1, "0123456789");

		for (size_t i = 0; len == 1 && i < ARRAY_SIZE(word); i++)
			if (starts_with_text(at, word[i]) && !is_name_char(at[strlen(word[i])]))
				len = strlen(word[i]);
		if (len == 1)
			break;
		at += len;
	}
	scan->no_suffix = at;
	return !*at || *at == '@';
}

static bool is_end_of_name(struct name_scan *scan)
{
	const char *at = scan->at;

	if (at == scan->name)
		return false;
	return *at == '@' || *at == ')' || (*at == '.' && is_compiler_suffix(scan)) ||
	       starts_with_text(at, " [clone ") || starts_with_text(at, " (.");
}

/* No piece begins within a word. */
static const char *end_of_word(const char *at, const char *end)
{
	while (is_name_char(*at) && at + 1 < end && is_name_char(at[1]))
		at++;
	return at + 1;
}

/* Takes the next piece; false: the name is complete. */
static bool scan_piece(struct name_scan *scan)
{
	const char *at = scan->at;

	if (is_end_of_name(scan))
		return false;
	if (*at == 'o' && is_word_at(scan->name, at, "operator")) {
		scan_operator(scan);
	} else if (*at == 'd' && is_word_at(scan->name, at, "decltype")) {
		at += strlen("decltype");
		at += *at == ' ';
		scan->at = *at == '(' ? skip_brackets(at) : at;
	} else if (*at == '<') {
		scan_template_arguments(scan);
	} else if (*at == '(') {
		return scan_parenthesis(scan);
	} else if (starts_with_text(at, "[abi:")) {
		scan->at = skip_brackets(at);
	} else if (*at == '{' || *at == '[') {
		scan_copy(scan, skip_brackets(at));
	} else if (*at == ' ' && !scan->keeps_spaces) {
		scan->len = 0;
		scan->at++;
	} else {
		scan_copy(scan, end_of_word(at, scan->end));
	}
	return true;
}

static void scan_name(struct name_scan *scan)
{
	while (scan->at < scan->end && scan_piece(scan))
		;
}

/* ---- Rust's <TYPE as TRAIT>::method ------------------------------------------------------------ */

/* The " as " of the impl whose text is first … end, or NULL. */
static const char *find_as(const char *first, const char *end)
{
	while (first < end) {
		if (strchr("<([{", *first))
			first = function_name_skip_group(first);
		else if (starts_with_text(first, " as "))
			return first;
		else
			first++;
	}
	return NULL;
}

/* Whether the text is a path such as shop::Cart, and not str, [T] or a parameter T. */
static bool is_crate_path(const char *first, const char *end)
{
	for (; first + 1 < end && !strchr("<([{", *first); first++)
		if (first[0] == ':' && first[1] == ':')
			return true;
	return false;
}

static bool is_of_rust(const char *path)
{
	return starts_with_text(path, "core::") || starts_with_text(path, "alloc::") ||
	       starts_with_text(path, "std::") || starts_with_text(path, "hashbrown::");
}

/* The type behind "&mut ", "dyn " and the like. */
static const char *skip_references(const char *at)
{
	static const char *const word[] = { "&", "mut ", "*const ", "*mut ", "dyn " };
	size_t i = 0;

	while (i < ARRAY_SIZE(word)) {
		bool is_there = starts_with_text(at, word[i]);

		at += is_there ? strlen(word[i]) : 0;
		i = is_there ? 0 : i + 1;
	}
	return at;
}

static void scan_part(struct name_scan *scan, const char *first, const char *end, int depth);

/* Copies the side of the impl that names its crate, and leaves scan->at behind the impl. */
static void scan_impl(struct name_scan *scan, int depth)
{
	const char *close = function_name_skip_group(scan->at);
	const char *type = skip_references(scan->at + 1), *last = close - 1;
	const char *as = find_as(scan->at + 1, last);

	if (!as && !is_crate_path(type, last)) {
		scan_copy(scan, close);
		return;
	}
	if (as && is_crate_path(type, as) && !is_of_rust(type))
		scan_part(scan, type, as, depth);
	else if (as)
		scan_part(scan, as + strlen(" as "), last, depth);
	else
		scan_part(scan, type, last, depth);
	scan->at = close;
}

static void scan_part(struct name_scan *scan, const char *first, const char *end, int depth)
{
	struct name_scan part = *scan;

	part.name = part.at = part.no_suffix = first;
	part.end = end;
	part.keeps_spaces = true;
	if (*first == '<' && depth < IMPL_DEPTH_MAX)
		scan_impl(&part, depth + 1);
	scan_name(&part);
	scan->len = part.len;
}

static bool is_impl(const char *name)
{
	return *name == '<' && !starts_with_text(name, "<lambda") && strstr(name, ">::");
}

/* ---- the whole ---------------------------------------------------------------------------------- */

static size_t copy_in_one_pass(struct name_scan *scan, bool keeps_spaces)
{
	scan->at = scan->no_suffix = scan->name;
	scan->len = 0;
	scan->keeps_spaces = keeps_spaces;
	if (is_impl(scan->name))
		scan_impl(scan, 0);
	scan_name(scan);
	scan->out[scan->len] = '\0';
	return scan->len;
}

size_t function_name_copy(char *out, const char *name, enum name_form form)
{
	struct name_scan scan = { .name = name, .end = name + strlen(name), .out = out, .form = form };
	bool is_objective_c = (*name == '-' || *name == '+') && name[1] == '[';
	size_t len = is_objective_c ? 0 : copy_in_one_pass(&scan, false);

	/* Only names with parameters have a return type. */
	if (!is_objective_c && !scan.has_parameters)
		len = copy_in_one_pass(&scan, true);
	if (!len) {
		len = strlen(name);
		memcpy(out, name, len + 1);
	}
	return len;
}

bool function_name_has_parameters(const char *name, char *scratch)
{
	struct name_scan scan = { .name = name, .end = name + strlen(name), .out = scratch, .form = NAME_BASE };

	copy_in_one_pass(&scan, false);
	return scan.has_parameters;
}

bool function_name_matches(const char *pattern, const char *name, char *scratch)
{
	function_name_copy(scratch, name, strchr(pattern, '<') ? NAME_QUALIFIED : NAME_BASE);
	return pattern_matches(pattern, scratch) || (strchr(pattern, '(') && pattern_matches(pattern, name));
}

bool function_names_share_base(const char *a, const char *b)
{
	char *base_a = malloc(strlen(a) + 1), *base_b = malloc(strlen(b) + 1);
	bool same = false;

	if (base_a && base_b) {
		function_name_copy(base_a, a, NAME_BASE);
		function_name_copy(base_b, b, NAME_BASE);
		same = !strcmp(base_a, base_b);
	}
	free(base_a);
	free(base_b);
	return same;
}
