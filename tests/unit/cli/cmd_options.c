// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <criterion/criterion.h>
#include <criterion/redirect.h>

/* The commands are in no library. */
#include "cli/cmd.c"
#include "cli/cmd_help.c"

struct shared {
	bool quiet;
	struct string_list label;
};

struct options {
	uint64_t count;
	const char *dir;
	uint64_t interval_ns;
	struct shared shared;
	int level;
	uint64_t speed;
};

static struct options got;
static char got_args[256], got_labels[256];

static int parse_level(const char *text, void *field, struct reason *why)
{
	if (text)
		return reason_set(why, -EINVAL, "no value is expected");
	++*(int *)field;
	return 0;
}

static int parse_speed(const char *text, void *field, struct reason *why)
{
	return parse_count(text, 1, 9, field) ? reason_set(why, -EINVAL, "'%s' is no speed", text) : 0;
}

static const struct option_row shared_rows[] = {
	{ "quiet", 'q', OPTION_FLAG, offsetof(struct shared, quiet), .help = "say less" },
	{ "label", 'l', OPTION_LIST, offsetof(struct shared, label),
	  .arg = "K=V", .help = "repeatable" },
	{},
};

static const struct option_row rows[] = {
	{ "count", 'n', OPTION_COUNT, offsetof(struct options, count),
	  .arg = "N", .help = "how many", .least = 1, .most = 100 },
	{ "output", 'o', OPTION_STRING, offsetof(struct options, dir),
	  .arg = "DIR", .help = "where to" },
	{ "interval", 0, OPTION_DURATION, offsetof(struct options, interval_ns),
	  .arg = "TIME", .help = "how often", .least = 1000000, .most = 60000000000 },
	{ "verbose", 'v', OPTION_CUSTOM, offsetof(struct options, level),
	  .help = "say more", .parse = parse_level },
	{},
};

static void append_all(char *text, const char *const *item, size_t nr)
{
	*text = '\0';
	for (size_t i = 0; i < nr; i++)
		strcat(strcat(text, i ? " " : ""), item[i]);
}

static int run_try(const void *options, const struct arguments *args)
{
	got = *(const struct options *)options;
	append_all(got_args, args->item, args->item_nr);
	append_all(got_labels, got.shared.label.item, got.shared.label.item_nr);
	cr_expect_null(args->item[args->item_nr]);
	return EXIT_DONE;
}

#define TRY \
	.args = "FILE…", .help = "a command to try", .arg_min = 1, .arg_max = 3, \
	.option = { { .row = rows }, { shared_rows, offsetof(struct options, shared) } }, \
	.defaults = &(const struct options){ .count = 7, .dir = "here" }, \
	.options_size = sizeof(struct options), .run = run_try

static const struct command cmd_try = { .name = "try", TRY };
static const struct command cmd_launch = { .name = "launch", TRY, .stop_at_first_arg = true };
static const struct command cmd_team_try = { .name = "team try", TRY };
static const struct command *const team[] = { &cmd_team_try, NULL };
static const struct command cmd_team = {
	.name = "team", .args = "COMMAND ...", .help = "commands of a command", .detail = "A line more.",
	.subcommand = team,
};
static const struct command *const commands[] = { &cmd_try, &cmd_launch, &cmd_team, NULL };

#define RUN(...) dispatch_command((char *[]){ "allocsnap", __VA_ARGS__, NULL }, commands)

Test(cmd, options_have_defaults)
{
	cr_assert_eq(RUN("try", "a", "-", "b"), EXIT_DONE);
	cr_expect_eq(got.count, 7);
	cr_expect_str_eq(got.dir, "here");
	cr_expect_not(got.shared.quiet);
	cr_expect_str_eq(got_args, "a - b");
}

Test(cmd, options_are_accepted_in_every_form)
{
	cr_assert_eq(RUN("try", "--count=5", "a", "-o", "x", "--interval", "250ms", "-vqv", "-lk=1",
			 "--label", "k=2", "-ql", "k=3"),
		     EXIT_DONE);
	cr_expect_eq(got.count, 5);
	cr_expect_str_eq(got.dir, "x");
	cr_expect_eq(got.interval_ns, 250000000);
	cr_expect(got.shared.quiet);
	cr_expect_eq(got.level, 2);
	cr_expect_str_eq(got_labels, "k=1 k=2 k=3");
	cr_expect_str_eq(got_args, "a");
}

Test(cmd, options_given_twice_take_the_last_value)
{
	cr_assert_eq(RUN("try", "-n1", "-n", "2", "--count=3", "a"), EXIT_DONE);
	cr_expect_eq(got.count, 3);
}

static const struct option_row optional_rows[] = {
	{ "speed", 0, OPTION_CUSTOM, offsetof(struct options, speed), .arg = "N", .without_value = "5",
	  .help = "go on at this speed", .parse = parse_speed },
	{},
};

static const struct command cmd_optional = {
	.name = "optional", .args = "FILE…", .help = "a command to try", .arg_max = 3, .option = { { .row = optional_rows } },
	.options_size = sizeof(struct options), .run = run_try,
};

#define RUN_OPTIONAL(...) \
	dispatch_command((char *[]){ "allocsnap", "optional", __VA_ARGS__, NULL }, \
			 (const struct command *const[]){ &cmd_optional, NULL })

Test(cmd, option_may_do_without_its_value, .init = cr_redirect_stdout)
{
	cr_expect_eq(RUN_OPTIONAL("a"), EXIT_DONE);
	cr_expect_eq(got.speed, 0);
	cr_expect_eq(RUN_OPTIONAL("--speed", "7"), EXIT_DONE);
	cr_expect_eq(got.speed, 5);
	cr_expect_str_eq(got_args, "7");
	cr_expect_eq(RUN_OPTIONAL("--speed=7", "a"), EXIT_DONE);
	cr_expect_eq(got.speed, 7);
	cr_expect_eq(RUN_OPTIONAL("--speed=", "a"), EXIT_REFUSED);
	cr_expect_eq(RUN_OPTIONAL("--speed=10", "a"), EXIT_REFUSED);
	cr_expect_eq(RUN_OPTIONAL("--help"), EXIT_DONE);
	fflush(stdout);
	cr_assert_stdout_eq_str("usage: allocsnap optional FILE… [OPTION]...\n"
				"\n"
				"a command to try\n"
				"\n"
				"      --speed[=N]  go on at this speed\n"
				"  -h, --help       print this help\n");
}

Test(cmd, options_end_at_two_dashes)
{
	cr_assert_eq(RUN("try", "-q", "--", "-n", "--", "--help"), EXIT_DONE);
	cr_expect_str_eq(got_args, "-n -- --help");
}

Test(cmd, launcher_passes_the_options_of_its_program_on)
{
	cr_assert_eq(RUN("launch", "-q", "ls", "-n", "--help"), EXIT_DONE);
	cr_expect(got.shared.quiet);
	cr_expect_str_eq(got_args, "ls -n --help");
	cr_assert_eq(RUN("launch", "--", "ls", "--", "-l"), EXIT_DONE);
	cr_expect_str_eq(got_args, "ls -- -l");
}

#define SEE_TRY "; see 'allocsnap try --help'\n"

Test(cmd, invalid_options_are_refused, .init = cr_redirect_stderr)
{
	cr_expect_eq(RUN("try"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "a", "b", "c", "d\033"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "a", "--coun", "1"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "a", "--counts=1"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "a", "-qx"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "a", "--count"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "a", "-n"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "a", "--count=0"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "a", "--count", "--quiet"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "a", "--interval=soon"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "a", "--interval=0.5ms"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "a", "--interval=2m"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "a", "--output="), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "a", "--quiet=yes"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "a", "--verbose=2"), EXIT_REFUSED);
	cr_expect_eq(RUN("tr"), EXIT_REFUSED);
	cr_expect_eq(RUN("-q"), EXIT_REFUSED);
	fflush(stderr);
	cr_assert_stderr_eq_str(
		"allocsnap: try: missing argument: try FILE…" SEE_TRY
		"allocsnap: try: one argument too many, 'd\\x1b': try FILE…" SEE_TRY
		"allocsnap: try: unknown option --coun (did you mean --count?)" SEE_TRY
		"allocsnap: try: unknown option --counts (did you mean --count?)" SEE_TRY
		"allocsnap: try: unknown option -x" SEE_TRY
		"allocsnap: try: --count needs N" SEE_TRY
		"allocsnap: try: -n needs N" SEE_TRY
		"allocsnap: try: --count: '0' is not a whole number from 1 to 100" SEE_TRY
		"allocsnap: try: --count: '--quiet' is not a whole number from 1 to 100"
		SEE_TRY
		"allocsnap: try: --interval: 'soon' is not a duration such as 250ms, 10s, 5m, 2h or 1d"
		SEE_TRY
		"allocsnap: try: --interval: '0.5ms' is less than 0.001s" SEE_TRY
		"allocsnap: try: --interval: '2m' is more than 60s" SEE_TRY
		"allocsnap: try: --output: DIR must not be empty" SEE_TRY
		"allocsnap: try: --quiet takes no value" SEE_TRY
		"allocsnap: try: --verbose takes no value" SEE_TRY
		"allocsnap: unknown command tr (did you mean try?); see 'allocsnap --help'\n"
		"allocsnap: unknown option -q; see 'allocsnap --help'\n");
}

Test(cmd, help_is_made_from_the_option_table, .init = cr_redirect_stdout)
{
	cr_expect_eq(RUN("launch", "--count=0x", "--help"), EXIT_REFUSED);
	cr_expect_eq(RUN("launch", "-h"), EXIT_DONE);
	fflush(stdout);
	cr_assert_stdout_eq_str("usage: allocsnap launch [OPTION]... FILE…\n"
				"\n"
				"a command to try\n"
				"\n"
				"  -n, --count N        how many (default 7)\n"
				"  -o, --output DIR     where to (default here)\n"
				"      --interval TIME  how often\n"
				"  -v, --verbose        say more\n"
				"  -q, --quiet          say less\n"
				"  -l, --label K=V      repeatable\n"
				"  -h, --help           print this help\n");
}

Test(cmd, subcommand_is_called_by_its_last_word)
{
	cr_assert_eq(RUN("team", "try", "-n3", "a"), EXIT_DONE);
	cr_expect_eq(got.count, 3);
	cr_expect_str_eq(got_args, "a");
}

Test(cmd, unknown_subcommand_is_refused, .init = cr_redirect_stderr)
{
	cr_expect_eq(RUN("team"), EXIT_REFUSED);
	cr_expect_eq(RUN("team", "launch", "a"), EXIT_REFUSED);
	cr_expect_eq(RUN("team", "-n3", "try", "a"), EXIT_REFUSED);
	cr_expect_eq(RUN("team", "try"), EXIT_REFUSED);
	cr_expect_eq(RUN("team try", "a"), EXIT_REFUSED);
	fflush(stderr);
	cr_assert_stderr_eq_str(
		"allocsnap: team: no command; see 'allocsnap team --help'\n"
		"allocsnap: team: unknown command launch; see 'allocsnap team --help'\n"
		"allocsnap: team: unknown option -n3; see 'allocsnap team --help'\n"
		"allocsnap: team try: missing argument: team try FILE…; see 'allocsnap team try --help'\n"
		"allocsnap: unknown command team try; see 'allocsnap --help'\n");
}

Test(cmd, help_lists_subcommands, .init = cr_redirect_stdout)
{
	cr_expect_eq(RUN("team", "-h"), EXIT_DONE);
	fflush(stdout);
	cr_assert_stdout_eq_str("usage: allocsnap team COMMAND ...\n"
				"\n"
				"commands of a command\n"
				"\n"
				"  team try FILE…  a command to try\n"
				"\n"
				"A line more.\n"
				"\n"
				"'allocsnap team COMMAND --help' lists the options of a command.\n");
}

static const struct option_row grouped_rows[] = {
	{ "count", 0, OPTION_COUNT, offsetof(struct options, count), .arg = "N", .default_text = "as many as there are",
	  .help = "show the first N rows of a table that would otherwise take more lines than a terminal has" },
	{ "a-name-that-is-long", 0, OPTION_STRING, offsetof(struct options, dir), .arg = "DIR", .help = "where to" },
	{},
};

static const struct command cmd_grouped = {
	.name = "grouped", .args = "FILE", .help = "a command with groups", .arg_min = 1, .arg_max = 1,
	.detail = "A paragraph that is longer than a line of eighty columns is wrapped where a word ends.\n\n"
		  "  an example --stays 'as it is'",
	.example = "allocsnap grouped file",
	.option = { { grouped_rows, 0, "First" }, { shared_rows, offsetof(struct options, shared), "Second" } },
	.options_size = sizeof(struct options), .run = run_try,
};

Test(cmd, help_has_groups_defaults_and_an_example, .init = cr_redirect_stdout)
{
	static const struct command *const grouped[] = { &cmd_grouped, NULL };

	cr_expect_eq(dispatch_command((char *[]){ "allocsnap", "help", "grouped", NULL }, grouped), EXIT_DONE);
	fflush(stdout);
	cr_assert_stdout_eq_str(
		"usage: allocsnap grouped FILE [OPTION]...\n"
		"\n"
		"a command with groups\n"
		"\n"
		"First:\n"
		"      --count N              show the first N rows of a table that would\n"
		"                             otherwise take more lines than a terminal has\n"
		"                             (default as many as there are)\n"
		"      --a-name-that-is-long DIR\n"
		"                             where to\n"
		"\n"
		"Second:\n"
		"  -q, --quiet                say less\n"
		"  -l, --label K=V            repeatable\n"
		"\n"
		"Other options:\n"
		"  -h, --help                 print this help\n"
		"\n"
		"A paragraph that is longer than a line of eighty columns is wrapped where a word\n"
		"ends.\n"
		"\n"
		"  an example --stays 'as it is'\n"
		"\n"
		"Example:\n"
		"  allocsnap grouped file\n");
}

#define HELP_TRY "usage: allocsnap try FILE… [OPTION]...\n"

Test(cmd, help_with_a_command_prints_the_help_of_the_command, .init = cr_redirect_stdout)
{
	char text[4096] = "";
	FILE *out;

	cr_expect_eq(RUN("help", "try"), EXIT_DONE);
	cr_expect_eq(RUN("help", "team", "try"), EXIT_DONE);
	cr_expect_eq(RUN("team", "help", "try"), EXIT_DONE);
	fflush(stdout);
	out = cr_get_redirected_stdout();
	cr_assert_gt(fread(text, 1, sizeof(text) - 1, out), 0);
	cr_expect_eq(strncmp(text, HELP_TRY, strlen(HELP_TRY)), 0);
	cr_expect_not_null(strstr(text, "usage: allocsnap team try FILE… [OPTION]...\n"));
}

Test(cmd, version_is_printed_on_request, .init = cr_redirect_stdout)
{
	cr_expect_eq(RUN("--version"), EXIT_DONE);
	cr_expect_eq(RUN("-V"), EXIT_DONE);
	cr_expect_eq(RUN("version"), EXIT_DONE);
	fflush(stdout);
	cr_assert_stdout_eq_str("allocsnap " ALLOCSNAP_VERSION "\n"
				"allocsnap " ALLOCSNAP_VERSION "\n"
				"allocsnap " ALLOCSNAP_VERSION "\n");
}

Test(cmd, unknown_word_suggests_a_similar_one, .init = cr_redirect_stderr)
{
	cr_expect_eq(RUN("lanuch"), EXIT_REFUSED);
	cr_expect_eq(RUN("hlep"), EXIT_REFUSED);
	cr_expect_eq(RUN("help", "tryy"), EXIT_REFUSED);
	cr_expect_eq(RUN("txx"), EXIT_REFUSED);
	cr_expect_eq(RUN("--vresion"), EXIT_REFUSED);
	cr_expect_eq(RUN("team", "tyr"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "--intervall=1s"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "--no"), EXIT_REFUSED);
	cr_expect_eq(RUN("try", "--a-name-that-no-command-line-would-have"), EXIT_REFUSED);
	fflush(stderr);
	cr_assert_stderr_eq_str(
		"allocsnap: unknown command lanuch (did you mean launch?); see 'allocsnap --help'\n"
		"allocsnap: unknown command hlep (did you mean help?); see 'allocsnap --help'\n"
		"allocsnap: unknown command tryy (did you mean try?); see 'allocsnap --help'\n"
		"allocsnap: unknown command txx; see 'allocsnap --help'\n"
		"allocsnap: unknown option --vresion (did you mean --version?); see 'allocsnap --help'\n"
		"allocsnap: team: unknown command tyr (did you mean try?); see 'allocsnap team --help'\n"
		"allocsnap: try: unknown option --intervall (did you mean --interval?)" SEE_TRY
		"allocsnap: try: unknown option --no" SEE_TRY
		"allocsnap: try: unknown option --a-name-that-no-command-line-would-have" SEE_TRY);
}
