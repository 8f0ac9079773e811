// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "cli/cmd.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/reason.h"
#include "base/units.h"
#include "cli/cmd_help.h"
#include "cli/pager.h"
#include "render/clean.h"

/* ---- removed words ---- */

#define PUSH_WATCH "'allocsnap push URL FOLDER --watch"

static const struct {
	const char *command; /* NULL: the value of an option */
	const char *word, *instead;
} removed[] = {
	{ NULL, "csv", "'allocsnap stats --json', of which jq makes rows (docs/formats.md)" },
	{ NULL, "markdown", "the format text" },
	{ NULL, "dhat", "pprof" },
	{ "convert", ".csv", "'allocsnap stats SNAP --json'" },
	{ "convert", ".md", "'allocsnap stats SNAP'" },
	{ "convert", ".dhat.json", ".pb.gz" },
	{ "record", "--push", PUSH_WATCH "' in a process of its own" },
	{ "record", "--push-credentials", PUSH_WATCH " --credentials FILE' in a process of its own" },
	{ "record", "--push-database", PUSH_WATCH " --database NAME' in a process of its own" },
	{ "record", "--push-top", PUSH_WATCH " --top N' in a process of its own" },
	{ "record", "--push-tenant", PUSH_WATCH " --tenant ID' in a process of its own" },
	{ "record", "--push-ca-file", PUSH_WATCH " --ca-file FILE' in a process of its own" },
	{ "record", "--push-max-waiting", PUSH_WATCH " --max-waiting N' in a process of its own" },
	{ "record", "--exclude-comm", "--exclude comm=GLOB" },
	{ "record", "--exclude-exe", "--exclude exe=GLOB" },
	{ "record", "--exclude-cgroup", "--exclude cgroup=GLOB" },
	{ "record", "--exclude-uid", "--exclude uid=USER" },
	{ "record", "--exclude-pid", "--exclude pid=PID" },
	{ "fleet", "trend", "'allocsnap fleet leaks', which says which lines grow and for how long" },
};

static bool is_equal(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

const char *removed_word_format(char text[REMOVED_TEXT_MAX], const char *command, const char *word, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(removed); i++) {
		if (!is_equal(removed[i].command, command) || strlen(removed[i].word) != len ||
		    memcmp(removed[i].word, word, len))
			continue;
		snprintf(text, REMOVED_TEXT_MAX, "%s was removed; use %s", removed[i].word, removed[i].instead);
		return text;
	}
	return NULL;
}

/* ---- messages on stderr ------------------------------------------------------------------- */

int log_refusal(const struct command *command, const char *fmt, ...)
{
	va_list args;
	char *why;

	va_start(args, fmt);
	why = clean_vformat(fmt, args);
	va_end(args);
	log_failure("%s: %s; see 'allocsnap %s --help'", command->name, why ?: strerror(ENOMEM),
		    command->name);
	free(why);
	return EXIT_REFUSED;
}

/* ---- words that are close to an unknown one ------------------------------------------------- */

#define DISTANCE_MAX 2
#define SUGGESTION_WORD_MAX 32
#define SUGGESTION_TEXT_MAX (SUGGESTION_WORD_MAX + 32)

/* "did you mean …": the known word that is closest to an unknown one. */
struct suggestion {
	char typed[SUGGESTION_WORD_MAX]; /* empty: too long to be a misspelt word */
	const char *closest;		 /* NULL: no known word is close */
	unsigned int distance;		 /* of closest */
};

static unsigned int smaller_of(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/*
 * The edit distance of two words shorter than SUGGESTION_WORD_MAX: how many letters are inserted,
 * deleted or replaced, or swapped with their neighbour, to get from one word to the other.
 */
static unsigned int edit_distance(const char *a, const char *b)
{
	unsigned int cost[SUGGESTION_WORD_MAX][SUGGESTION_WORD_MAX];
	size_t a_len = strlen(a), b_len = strlen(b);

	for (size_t i = 0; i <= a_len; i++) {
		for (size_t k = 0; k <= b_len; k++) {
			if (!i || !k) {
				cost[i][k] = i + k;
				continue;
			}
			cost[i][k] = smaller_of(cost[i - 1][k] + 1, cost[i][k - 1] + 1);
			cost[i][k] = smaller_of(cost[i][k], cost[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
				cost[i][k] = smaller_of(cost[i][k], cost[i - 2][k - 2] + 1);
		}
	}
	return cost[a_len][b_len];
}

/* The first `len` bytes of `typed` are the unknown word. */
static void suggestion_start(struct suggestion *suggestion, const char *typed, size_t len)
{
	*suggestion = (struct suggestion){};
	if (len < sizeof(suggestion->typed))
		memcpy(suggestion->typed, typed, len);
}

/*
 * A known word is close if the unknown one is its beginning, or differs from it by at most two edits; a
 * word of two or three letters by one. Of equally close words the first one wins.
 */
static void suggestion_consider(struct suggestion *suggestion, const char *known)
{
	size_t len = strlen(suggestion->typed);
	unsigned int distance;

	if (!len || strlen(known) >= SUGGESTION_WORD_MAX)
		return;
	distance = strncmp(known, suggestion->typed, len) ? edit_distance(suggestion->typed, known) : 0;
	if (distance > DISTANCE_MAX || distance * 2 > len)
		return;
	if (suggestion->closest && distance >= suggestion->distance)
		return;
	suggestion->closest = known;
	suggestion->distance = distance;
}

/* " (did you mean --count?)", with the dashes that are passed; "" if no known word is close. Returns text. */
static const char *suggestion_format(char text[SUGGESTION_TEXT_MAX], const struct suggestion *suggestion,
				     const char *dashes)
{
	*text = '\0';
	if (suggestion->closest)
		snprintf(text, SUGGESTION_TEXT_MAX, " (did you mean %s%s?)", dashes, suggestion->closest);
	return text;
}

/* ---- one command line --------------------------------------------------------------------- */

struct parser {
	const struct command *command;
	char *options;		 /* the command's struct */
	char **rest;		 /* words not read yet; ends with NULL */
	struct string_list args;
	bool options_ended;
	bool help, all_help;
};

/* An option of the command line: its row, and the field that it sets. */
struct found_option {
	const struct option_row *row;
	void *field;
	char shown[80]; /* "--top", "-o", for messages */
};

static bool is_row_of(const struct option_row *row, const char *name, size_t len, char letter)
{
	if (letter)
		return row->letter == letter;
	return strlen(row->name) == len && !memcmp(row->name, name, len);
}

/* Finds an option by its letter or, if letter is 0, by its name. NULL: the command has no such option. */
static const struct option_row *find_option_row(const struct parser *parser, const char *name, size_t len,
						char letter, void **ret_field)
{
	for_each_row(parser->command, group, row)
		if (is_row_of(row, name, len, letter)) {
			*ret_field = parser->options + group->base + row->offset;
			return row;
		}
	return NULL;
}

static int parse_count_option(const struct found_option *option, const char *text, struct reason *why)
{
	const struct option_row *row = option->row;
	uint64_t most = row->most ?: UINT64_MAX;
	int err = parse_count(text, row->least, most, option->field);

	if (!err)
		return 0;
	if (!row->most)
		return reason_set(why, err, "'%.100s' is not a whole number of at least %ju", text,
				  (uintmax_t)row->least);
	return reason_set(why, err, "'%.100s' is not a whole number from %ju to %ju", text,
			  (uintmax_t)row->least, (uintmax_t)most);
}

static int parse_duration_option(const struct found_option *option, const char *text, struct reason *why)
{
	const struct option_row *row = option->row;
	uint64_t ns;
	int err = parse_duration(text, &ns);

	if (err)
		return reason_set(why, err, "'%.100s' is not a duration such as 250ms, 10s, 5m, "
					    "2h or 1d", text);
	if (ns < row->least)
		return reason_set(why, -ERANGE, "'%.100s' is less than %gs", text,
				  row->least / 1e9);
	if (row->most && ns > row->most)
		return reason_set(why, -ERANGE, "'%.100s' is more than %gs", text, row->most / 1e9);
	*(uint64_t *)option->field = ns;
	return 0;
}

static int parse_string_option(const struct found_option *option, const char *text, struct reason *why)
{
	if (!*text)
		return reason_set(why, -EINVAL, "%s must not be empty", option->row->arg);
	if (option->row->kind == OPTION_LIST)
		return array_push((struct string_list *)option->field, item, text);
	*(const char **)option->field = text;
	return 0;
}

const struct option_choice *choice_named(const struct option_choice *choices, const char *name, size_t len)
{
	for (; choices->name; choices++)
		if (strlen(choices->name) == len && !memcmp(choices->name, name, len))
			return choices;
	return NULL;
}

static int parse_choice(const struct found_option *option, const char *text, struct reason *why)
{
	struct option_choice choice;
	char names[OPTION_HELP_MAX];

	for (size_t at = 0; option_choice_at(option->row, at, &choice); at++) {
		if (strcmp(choice.name, text))
			continue;
		memcpy(option->field, &choice.number, sizeof(choice.number));
		return 0;
	}
	return reason_set(why, -EINVAL, "'%.100s' is none of %s", text, choice_names(names, option->row));
}

static int parse_value(const struct found_option *option, const char *text, struct reason *why)
{
	switch (option->row->kind) {
	case OPTION_FLAG:
	case OPTION_CLEAR:
		*(bool *)option->field = option->row->kind == OPTION_FLAG;
		return 0;
	case OPTION_COUNT:
		return parse_count_option(option, text, why);
	case OPTION_DURATION:
		return parse_duration_option(option, text, why);
	case OPTION_STRING:
	case OPTION_LIST:
		return parse_string_option(option, text, why);
	case OPTION_CHOICE:
		return parse_choice(option, text, why);
	case OPTION_CUSTOM:
		return option->row->parse(text, option->field, why);
	}
	return -EINVAL;
}

static int set_option(const struct parser *parser, const struct found_option *option,
		      const char *text)
{
	struct reason why = { "out of memory" };

	if (!parse_value(option, text, &why))
		return 0;
	return log_refusal(parser->command, "%s: %s", option->shown, why.text);
}

/* value points into the option's own word; NULL: the value is the next word. */
static int set_with_value(struct parser *parser, const struct found_option *option,
			  const char *value)
{
	if (!value)
		value = *parser->rest;
	if (!value)
		return log_refusal(parser->command, "%s needs %s", option->shown, option->row->arg);
	if (value == *parser->rest)
		parser->rest++;
	return set_option(parser, option, value);
}

/* A long name that no row has; the two dashes stand before it. */
static int refuse_option(const struct command *command, const char *name, size_t len)
{
	struct suggestion suggestion;
	char hint[SUGGESTION_TEXT_MAX], removed[REMOVED_TEXT_MAX];

	if (removed_word_format(removed, command->name, name - strlen("--"), len + strlen("--")))
		return log_refusal(command, "%s", removed);
	suggestion_start(&suggestion, name, len);
	for_each_row(command, group, row)
		suggestion_consider(&suggestion, row->name);
	for (const struct option_row *row = other_rows(command); row->name; row++)
		suggestion_consider(&suggestion, row->name);
	return log_refusal(command, "unknown option --%.*s%s", (int)len, name,
			   suggestion_format(hint, &suggestion, "--"));
}

static int parse_long(struct parser *parser, const char *name)
{
	size_t len = strcspn(name, "=");
	const char *value = name[len] ? name + len + 1 : NULL;
	struct found_option option = {};

	if (len == strlen("help") && !memcmp(name, "help", len)) {
		parser->help = true;
		parser->all_help = value && !strcmp(value, "all");
		if (value && !parser->all_help)
			return log_refusal(parser->command, "--help: '%.100s' is not all", value);
		return 0;
	}
	if (!strcmp(name, "no-pager") && parser->command->pages) {
		pager_forbid();
		return 0;
	}
	option.row = find_option_row(parser, name, len, 0, &option.field);
	if (!option.row)
		return refuse_option(parser->command, name, len);
	snprintf(option.shown, sizeof(option.shown), "--%s", option.row->name);
	if (option.row->arg && (value || !option.row->without_value))
		return set_with_value(parser, &option, value);
	if (value)
		return log_refusal(parser->command, "%s takes no value", option.shown);
	return set_option(parser, &option, option.row->without_value);
}

/* A word of letters: flags, then at most one option, whose value is the rest of the word or the next word. */
static int parse_letters(struct parser *parser, const char *letters)
{
	int status = 0;

	for (; *letters && !status; letters++) {
		struct found_option option = { .shown = { '-', *letters } };

		option.row = find_option_row(parser, NULL, 0, *letters, &option.field);
		if (!option.row && *letters == 'h')
			parser->help = true;
		else if (!option.row)
			return log_refusal(parser->command, "unknown option -%c", *letters);
		else if (option.row->arg)
			return set_with_value(parser, &option, letters[1] ? letters + 1 : NULL);
		else
			status = set_option(parser, &option, NULL);
	}
	return status;
}

/* "-1" is no option: no option has a digit as its letter. */
static bool is_argument_word(const char *word)
{
	return word[0] != '-' || !word[1] || isdigit((unsigned char)word[1]);
}

static int parse_word(struct parser *parser)
{
	char *word = *parser->rest++;

	if (parser->options_ended || is_argument_word(word)) {
		parser->options_ended |= parser->command->stop_at_first_arg;
		if (array_push(&parser->args, item, word))
			return log_failure("%s", strerror(ENOMEM));
		return 0;
	}
	if (word[1] != '-')
		return parse_letters(parser, word + 1);
	if (word[2])
		return parse_long(parser, word + 2);
	parser->options_ended = true;
	return 0;
}

static int check_args(const struct parser *parser)
{
	const struct command *command = parser->command;
	size_t nr = parser->args.item_nr;

	if (nr < command->arg_min)
		return log_refusal(command, "missing argument: %s %s", command->name,
				   command->args);
	if (nr > command->arg_max)
		return log_refusal(command, "one argument too many, '%s': %s%s%s",
				   parser->args.item[command->arg_max], command->name,
				   *command->args ? " " : "", command->args);
	return 0;
}

static int parse_words(struct parser *parser)
{
	int status = 0;

	while (*parser->rest && !status && !parser->help)
		status = parse_word(parser);
	if (!status && !parser->help)
		status = check_args(parser);
	if (!status && array_push(&parser->args, item, NULL))
		status = log_failure("%s", strerror(ENOMEM));
	return status;
}

static void free_lists(struct parser *parser)
{
	for_each_row(parser->command, group, row)
		if (row->kind == OPTION_LIST)
			free(((struct string_list *)(parser->options + group->base + row->offset))->item);
}

static int run_parsed(const struct parser *parser)
{
	struct arguments args = {
		.item = parser->args.item,
		.item_nr = parser->args.item_nr - 1, /* without the NULL */
	};

	if (parser->help)
		return print_command_help(parser->command, parser->all_help);
	return parser->command->run(parser->options, &args);
}

static int run_command(const struct command *command, char **words)
{
	struct parser parser = { .command = command, .rest = words };
	int status;

	parser.options = calloc(1, command->options_size + 1);
	if (!parser.options)
		return log_failure("%s", strerror(ENOMEM));
	if (command->defaults)
		memcpy(parser.options, command->defaults, command->options_size);
	status = parse_words(&parser);
	progress_allow(!command->has_own_screen);
	status = status ?: run_parsed(&parser);
	free_lists(&parser);
	free(parser.args.item);
	free(parser.options);
	return status;
}

/* ---- the program -------------------------------------------------------------------------- */

/* The word that calls a command: the last one of its name. */
static const char *command_word(const struct command *command)
{
	const char *space = strrchr(command->name, ' ');

	return space ? space + 1 : command->name;
}

static const struct command *find_command(const struct command *const *commands, const char *word)
{
	for (; *commands; commands++)
		if (!strcmp(command_word(*commands), word))
			return *commands;
	return NULL;
}

static bool is_help_option(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "--help=all") || !strcmp(word, "-h");
}

static bool is_version_request(const char *word)
{
	return !strcmp(word, "--version") || !strcmp(word, "-V") || !strcmp(word, "version");
}

static int refuse_word(const char *what, const char *word, const char *hint)
{
	log_info("%s%s%s; see 'allocsnap --help'", what, word, hint);
	return EXIT_REFUSED;
}

static int refuse_program_option(const char *word)
{
	struct suggestion suggestion;
	char hint[SUGGESTION_TEXT_MAX];

	suggestion_start(&suggestion, word, strlen(word));
	suggestion_consider(&suggestion, "--help");
	suggestion_consider(&suggestion, "--version");
	suggestion_consider(&suggestion, "--no-pager");
	return refuse_word("unknown option ", word, suggestion_format(hint, &suggestion, ""));
}

/* parent is NULL for the commands of the program. */
static int refuse_command(const struct command *parent, const struct command *const *commands, const char *word)
{
	struct suggestion suggestion;
	char hint[SUGGESTION_TEXT_MAX], removed[REMOVED_TEXT_MAX];

	if (parent && removed_word_format(removed, parent->name, word, strlen(word)))
		return log_refusal(parent, "%s", removed);
	suggestion_start(&suggestion, word, strlen(word));
	for (; *commands; commands++)
		suggestion_consider(&suggestion, command_word(*commands));
	suggestion_consider(&suggestion, "help");
	if (!parent)
		suggestion_consider(&suggestion, "version");
	suggestion_format(hint, &suggestion, "");
	if (parent)
		return log_refusal(parent, "unknown command %s%s", word, hint);
	return refuse_word("unknown command ", word, hint);
}

/* `help` and the words after it, which name a command. parent is NULL for the commands of the program. */
static int show_help(const struct command *parent, const struct command *const *commands, char **words)
{
	const struct command *command;

	if (!*words || is_help_option(*words))
		return parent ? print_subcommands_help(parent) : print_program_help(commands);
	command = find_command(commands, *words);
	if (!command)
		return refuse_command(parent, commands, *words);
	return command->subcommand ? show_help(command, command->subcommand, words + 1) :
				     print_command_help(command, false);
}

static int run_subcommand(const struct command *command, char **words)
{
	const struct command *subcommand;

	if (!*words)
		return log_refusal(command, "no command");
	if (is_help_option(*words))
		return print_subcommands_help(command);
	if (**words == '-')
		return log_refusal(command, "unknown option %s", *words);
	subcommand = find_command(command->subcommand, *words);
	if (subcommand)
		return run_command(subcommand, words + 1);
	if (!strcmp(*words, "help"))
		return show_help(command, command->subcommand, words + 1);
	return refuse_command(command, command->subcommand, *words);
}

static int dispatch_command(char **argv, const struct command *const *commands)
{
	const char *word = argv[0] ? argv[1] : NULL;
	const struct command *command;

	if (!word)
		return refuse_word("no command", "", "");
	if (is_help_option(word))
		return print_program_help(commands);
	if (is_version_request(word))
		return print_version();
	if (!strcmp(word, "--man") && argv[2]) /* for `make man`; help does not list it */
		return write_man_pages(argv[2], commands);
	if (!strcmp(word, "--completion") && argv[2]) /* the same for `make completion` */
		return write_completion(argv[2], commands);
	if (!strcmp(word, "--no-pager")) {
		pager_forbid();
		return dispatch_command(argv + 1, commands);
	}
	if (word[0] == '-')
		return refuse_program_option(word);
	if (!strcmp(word, "help"))
		return show_help(NULL, commands, argv + 2);
	command = find_command(commands, word);
	if (!command)
		return refuse_command(NULL, commands, word);
	return command->subcommand ? run_subcommand(command, argv + 2) : run_command(command, argv + 2);
}

/* Output that could not be written is a failure. It is not reported if the reader closed the pipe. */
static int finish_stdout(int status)
{
	bool failed;

	if (!pager_end())
		status = status ?: EXIT_FAILED;
	failed = ferror(stdout);
	errno = 0;
	failed |= fflush(stdout) != 0;
	if (fclose(stdout) && errno != EBADF)
		failed = true;
	if (!failed)
		return status;
	if (errno != EPIPE && status != EXIT_FAILED)
		log_failure("cannot write: %s", strerror(errno ?: EIO));
	return status ?: EXIT_FAILED;
}

/*
 * Opens /dev/null in place of standard descriptors that are closed: otherwise a file or a probe of ours would get
 * their number, and our output. Output to them still fails, and a program that is run does not inherit them.
 */
static void keep_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			open("/dev/null", (fd ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
}

int commands_main(int argc, char **argv, const struct command *const *commands)
{
	(void)argc;
	keep_standard_descriptors();
	return finish_stdout(dispatch_command(argv, commands));
}
