// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "render/readable_name.h"

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
