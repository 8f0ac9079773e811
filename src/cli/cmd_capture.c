// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/reason.h"
#include "base/units.h"
#include "cli/cmd_attach.h"
#include "cli/cmd_help.h"
#include "cli/find_snapshot.h"
#include "cli/recording_place.h"
#include "collect.h"
#include "collect/drain/map_sizes.h"
#include "elf/machine.h"
#include "elf/user_allocators.h"
#include "record/recorder.h"

#define FIELD(name) offsetof(struct capture_options, name)

static const struct option_choice unwinders[] = {
	{ "auto", "unwind tables; frame pointers in code that has none (default)", COLLECTOR_UNWIND_AUTO },
	{ "dwarf", "unwind tables only", COLLECTOR_UNWIND_DWARF },
	{ "fp", "frame pointers only", COLLECTOR_UNWIND_FP },
	{},
};

static const struct option_choice frame_kinds[] = {
	{ "python", "of Python code, as in tracemalloc (default)", COLLECTOR_FRAMES_PYTHON },
	{ "mixed", "of C code and of the Python code that it runs; CPython 3.11 or later", COLLECTOR_FRAMES_MIXED },
	{ "native", "of C code", COLLECTOR_FRAMES_NATIVE },
	{},
};

static int parse_max_blocks(const char *text, void *field, struct reason *why)
{
	uint64_t blocks;

	if (parse_size(text, &blocks) || !blocks || blocks > COLLECTOR_MAX_BLOCKS_MOST)
		return reason_set(why, -EINVAL, "'%.100s' is no number from 1 to 128M (%u)", text,
				  COLLECTOR_MAX_BLOCKS_MOST);
	*(uint64_t *)field = blocks;
	return 0;
}

/* 0 bytes is refused: without the option there is no limit. */
static int parse_capture_size(const char *text, void *field, struct reason *why)
{
	uint64_t bytes;

	if (parse_size(text, &bytes) || !bytes)
		return reason_set(why, -EINVAL, "'%.100s' is not a size such as 4096, 64K, 10MiB or 1G",
				  text);
	*(uint64_t *)field = bytes;
	return 0;
}

int parse_sample(const char *text, void *field, struct reason *why)
{
	uint64_t bytes = 0;
	int err = parse_capture_size(text, &bytes, why);

	if (err)
		return err;
	if (bytes > COLLECTOR_SAMPLE_BYTES_MOST)
		return reason_set(why, -EINVAL, "'%.100s' is more than 64G", text);
	*(uint64_t *)field = bytes;
	return 0;
}

static int parse_inject(const char *text, void *field, struct reason *why)
{
	int err = strcmp(text, "exact") ? parse_sample(text, field, why) : 0;

	if (err && !isdigit((unsigned char)*text))
		return reason_set(why, err, "'%.100s' is not 'exact', and no size such as 64K", text);
	if (err || strcmp(text, "exact"))
		return err;
	*(uint64_t *)field = COLLECTOR_INJECT_EXACT;
	return 0;
}

static int parse_sample_choice(const char *text, void *field, struct reason *why)
{
	struct capture_sample *sample = field;

	sample->with_large = !strcmp(text, "pools,large");
	sample->by_pools = sample->with_large || !strcmp(text, "pools");
	sample->bytes = 0;
	return sample->by_pools ? 0 : parse_sample(text, &sample->bytes, why);
}

bool is_sample_chosen(const struct capture_options *options)
{
	return options->sample.bytes || options->sample.by_pools;
}

const char *python_option_of(const struct capture_options *options)
{
	return options->retag ? "--retag" : options->sample.by_pools ? "--sample pools" : options->python_frames ? "--frames" : NULL;
}

static const struct option_choice domains[] = {
	{ "malloc", "all heaps (default)", COLLECTOR_MALLOC },
	{ "python", "what CPython allocates, with Python tracebacks (default of attach and run for a program that "
		    "runs CPython, if possible; the default of record is its heap and its pools of small objects)", COLLECTOR_PYTHON },
	{ "go", "the heap of Go's runtime, by samples of its own (by default, beside the others)", COLLECTOR_GO },
	{ "mmap", "mmap, munmap and mremap, also by heaps: with malloc,mmap these bytes count in both domains", COLLECTOR_MMAP },
	{ "pages", "resident memory (RSS) of any program, by the page faults that brought it; alone", COLLECTOR_PAGES },
	{ "glibc", "this heap only; if linked statically, use malloc", COLLECTOR_GLIBC },
	{ "musl", "this heap only; if linked statically, use malloc", COLLECTOR_MUSL },
	{ "jemalloc", "this heap only", COLLECTOR_JEMALLOC },
	{ "tcmalloc", "this heap only", COLLECTOR_TCMALLOC },
	{ "mimalloc", "this heap only", COLLECTOR_MIMALLOC },
	{ "java", "samples of objects with Java's lines: a Java virtual machine (11 or later) loads an agent, whose library stays mapped",
	  COLLECTOR_JAVA },
	{},
};

static int refuse_domain(const char *name, size_t bytes, struct reason *why)
{
	char names[OPTION_HELP_MAX];

	return reason_set(why, -EINVAL, "'%.*s' is none of %s", (int)(bytes < 100 ? bytes : 100), name,
			  choice_names(names, &(struct option_row){ .choices = domains }));
}

static int parse_domains(const char *text, void *field, struct reason *why)
{
	uint32_t found = 0;

	for (const char *name = text;; name++) {
		size_t bytes = strcspn(name, ",");
		const struct option_choice *domain = choice_named(domains, name, bytes);

		if (!domain)
			return refuse_domain(name, bytes, why);
		found |= domain->number;
		name += bytes;
		if (!*name)
			break;
	}
	*(uint32_t *)field = found;
	return 0;
}

static bool is_compact_by_default(const void *field)
{
	return *(const bool *)field;
}

static bool is_not_compact_by_default(const void *field)
{
	return !*(const bool *)field;
}

const struct option_row capture_output_rows[] = {
	{ "output", 'o', OPTION_STRING, FIELD(recording.dir), .arg = "DIR",
	  .help = "write snapshots to DIR/HOST/COMM.PID/TIME.snap; attach and run also take FILE.snap, for a "
		  "single one", .rank = 10,
	  .brief = "write snapshots below DIR" },
	{ "compact", 0, OPTION_FLAG, FIELD(recording.is_compact), .is_default = is_compact_by_default,
	  .help = "write small files: compressed, without addresses and threads, allocation times to the second" },
	{ "no-compact", 0, OPTION_CLEAR, FIELD(recording.is_compact), .is_default = is_not_compact_by_default,
	  .help = "write everything known about each block, uncompressed" },
	{ "no-names", 0, OPTION_FLAG, FIELD(no_names),
	  .help = "write frames as build-id and offset, without names; 'allocsnap symbolize' adds the names later" },
	{ "label", 0, OPTION_LIST, FIELD(label), .arg = "NAME=VALUE",
	  .help = "store a label in every snapshot, such as version=1.4, for later comparisons; repeatable", .rank = 28,
	  .brief = "store a label in every snapshot, such as version=1.4" },
	{ "quiet", 'q', OPTION_FLAG, FIELD(recording.is_quiet),
	  .help = "on a terminal, show no status line, and no rows and cost at the end" },
	{},
};

const struct option_row capture_time_rows[] = {
	{ "interval", 'i', OPTION_DURATION, FIELD(recording.interval_ns),
	  .arg = "TIME", .help = "take a snapshot every TIME: 250ms, 10s, 5m, 2h; a bare number is seconds",
	  .least = 10000000, .rank = 11,
	  .brief = "take a snapshot every TIME: 250ms, 10s, 5m, 2h" },
	{ "duration", 'd', OPTION_DURATION, FIELD(recording.duration_ns),
	  .arg = "TIME", .help = "take a last snapshot after TIME and exit; -d 5 is 5 seconds", .rank = 20,
	  .brief = "take a last snapshot after TIME and exit" },
	{ "count", 'n', OPTION_COUNT, FIELD(recording.count), .arg = "N",
	  .help = "exit after N snapshots of each process", .least = 1, .rank = 29 },
	{ "on-growth", 0, OPTION_CUSTOM, FIELD(recording.triggers), .arg = "STEP",
	  .help = "also snapshot a process when its live bytes exceed its last snapshot by STEP: 20% or 100M",
	  .parse = parse_growth_trigger, .rank = 30,
	  .brief = "also snapshot when live bytes grew by STEP: 20% or 100M" },
	{ "on-peak", 0, OPTION_CUSTOM, FIELD(recording.triggers.peak_percent), .arg = "PCT%",
	  .help = "also snapshot a process when its live bytes exceed its largest snapshot so far by PCT percent",
	  .parse = parse_peak_trigger },
	{ "on-oom", 0, OPTION_FLAG, FIELD(recording.triggers.on_oom),
	  .help = "when the OOM killer selects a process, also snapshot all recorded processes in its memory cgroup" },
	{},
};

const struct option_row capture_what_rows[] = {
	{ "follow-forks", 'f', OPTION_FLAG, FIELD(follow_forks),
	  .help = "also record children that recorded processes start later, each with its own snapshots", .rank = 22,
	  .brief = "also record children that are started later, each with its own snapshots" },
	{ "domain", 0, OPTION_CUSTOM, FIELD(domains), .arg = "NAMES",
	  .help = "record the blocks of these allocators, separated by commas", .parse = parse_domains,
	  .choices = domains, .rank = 27,
	  .brief = "record these only: malloc, python, mmap, jemalloc…" },
	{ "retag", 0, OPTION_FLAG, FIELD(retag),
	  .help = "Python: give each object in reused free-list memory its own traceback, as tracemalloc does; fails if "
		  "the program's file does not allow it. Without the option, allocsnap does so where it can" },
	{ "no-retag", 0, OPTION_FLAG, FIELD(no_retag),
	  .help = "Python: give objects in reused free-list memory the traceback of the first object there, which "
		  "may be wrong; saves one trap per object, a third of the cost" },
	{ "java-gc", 0, OPTION_FLAG, FIELD(java_gc),
	  .help = "with --domain java: let the virtual machine collect its whole heap before each snapshot; the program "
		  "stands still meanwhile. Without the option a snapshot has the objects that the last such collection of its own has left" },
	{ "probe", 0, OPTION_LIST, FIELD(probe), .arg = "SPEC",
	  .help = "also record an allocator of the program itself (see SPEC below); repeatable" },
	{ "min-size", 0, OPTION_CUSTOM, FIELD(min_size), .arg = "SIZE",
	  .help = "ignore blocks smaller than SIZE bytes: 4096, 64K, 10MiB", .parse = parse_capture_size },
	{ "max-size", 0, OPTION_CUSTOM, FIELD(max_size), .arg = "SIZE",
	  .help = "ignore blocks larger than SIZE bytes", .parse = parse_capture_size },
	{},
};

const struct option_row capture_stack_rows[] = {
	{ "traceback-limit", 0, OPTION_COUNT, FIELD(traceback_limit), .default_text = "64",
	  .arg = "N", .help = "keep at most N frames of each traceback, 1 to 127", .least = 1,
	  .most = COLLECTOR_TRACEBACK_LIMIT_MAX },
	{ "unwind", 0, OPTION_CHOICE, FIELD(unwinder), .arg = "HOW",
	  .help = "how to find the callers of an allocation", .choices = unwinders },
	{ "frames", 0, OPTION_CHOICE, FIELD(python_frames), .arg = "KIND",
	  .help = "Python: which frames a traceback has", .choices = frame_kinds },
	{ "no-return-probes", 0, OPTION_FLAG, FIELD(no_return_probes),
	  .help = "do not replace return addresses, for programs that inspect their own stack; slower" },
	{},
};

const struct option_row capture_cost_rows[] = {
	{ "sample", 0, OPTION_CUSTOM, FIELD(sample), .arg = "SIZE",
	  .help = "cheaper: record samples only, one per SIZE bytes on average, such as 512K; sums are then "
		  "estimates. 'pools' is for CPython: it records only which lines take new pools for objects of up "
		  "to 512 bytes, at nearly no cost; 'pools,large' also records each larger object. Both imply "
		  "--domain python",
	  .parse = parse_sample_choice, .rank = 24,
	  .brief = "cheaper: record samples only, one per SIZE bytes, such as 512K" },
	{ "no-sampler", 0, OPTION_FLAG, FIELD(no_sampler),
	  .help = "record every block even if a process samples its own heap (otel_memory); by default allocsnap "
		  "records these samples, at almost no cost" },
	{ "sampler-rate", 0, OPTION_COUNT, FIELD(sampler_rate), .arg = "N", .default_text = "1000",
	  .help = "limit sampling by liballocsnap-sampler.so to about N samples a second in each process; above "
		  "that, sample less often", .least = 1, .most = 1000000000 },
	{ "max-overhead", 0, OPTION_COUNT, FIELD(max_overhead), .arg = "PCT",
	  .help = "take at most PCT percent of each process's own CPU time (10: or 1 % of a core, if that is more; 10 % of "
		  "one core, or of its control group's quota, at most): if every block costs more, record "
		  "samples; if samples cost more, too, pause: allocations in a pause are missing", .least = 1,
	  .most = COLLECTOR_MAX_OVERHEAD_MOST, .rank = 14,
	  .brief = "take at most PCT percent of the CPU time of each process: record samples, or pause, if every "
		  "block costs more" },
	{ "max-blocks", 0, OPTION_CUSTOM, FIELD(max_blocks), .arg = "N", .default_text = "4M",
	  .help = "room in the kernel for N live blocks: 1000000, 10M, up to 128M",
	  .parse = parse_max_blocks },
	{ "max-tracebacks", 0, OPTION_COUNT, FIELD(max_tracebacks), .default_text = "262144",
	  .arg = "N", .help = "room in the kernel for N different tracebacks",
	  .least = 1, .most = 1 << 26 },
	{ "max-memory", 0, OPTION_CUSTOM, FIELD(max_memory), .arg = "SIZE",
	  .help = "use at most SIZE bytes of kernel memory for blocks, tracebacks and unwind tables: 64M, 1G; replaces "
		  "--max-blocks and --max-tracebacks",
	  .parse = parse_capture_size },
	{},
};

const struct capture_options capture_defaults = CAPTURE_DEFAULTS;

/* The command line comes first, then the variable ALLOCSNAP_UNWIND, with which the tests run in all modes. */
static enum collector_unwinder choose_unwinder(const struct capture_options *options)
{
	const char *text = getenv("ALLOCSNAP_UNWIND");
	const struct option_choice *choice = text ? choice_named(unwinders, text, strlen(text)) : NULL;

	return choice && options->unwinder == capture_defaults.unwinder ? choice->number : options->unwinder;
}

static const struct option_choice go_profiles[] = {
	{ "off", "leave the program as it is (default)", false },
	{ "on", "store 524288 in its runtime.MemProfileRate, and 0 again at the end", true },
	{},
};

const struct option_row capture_inject_rows[] = {
	{ "go-profile", 0, OPTION_CHOICE, FIELD(go_profile), .arg = "HOW", .choices = go_profiles,
	  .help = "with a Go program that was linked without its heap profile: whether to switch it on" },
	{ "inject", 0, OPTION_CUSTOM, FIELD(inject_bytes), .arg = "SIZE", .without_value = "512K",
	  .help = "put a sampler into the running process, and take it out at the end. It takes one sample per "
		  "SIZE bytes on average (default 512K); other blocks cost some nanoseconds. exact: functions that "
		  "enter every block, a Python's objects or the heap, for a small part of what traps cost",
	  .parse = parse_inject, .rank = 25,
	  .brief = "put a sampler into the running process; it costs some nanoseconds a block" },
	{},
};

const struct option_row capture_children_rows[] = {
	{ "children", 0, OPTION_FLAG, FIELD(children),
	  .help = "also record children that are already running, and their children; --follow-forks records those "
		  "that are started later",
	  .rank = 23,
	  .brief = "also record children that are already running" },
	{},
};

static uint64_t max_size_of(const struct capture_options *options)
{
	bool by_pools_only = options->sample.by_pools && !options->sample.with_large;

	return by_pools_only && (!options->max_size || options->max_size > COLLECTOR_PYTHON_SMALL_MAX) ?
		       COLLECTOR_PYTHON_SMALL_MAX : options->max_size;
}

static bool is_exact_chosen(const struct capture_options *options)
{
	return options->exact || options->inject_bytes == COLLECTOR_INJECT_EXACT;
}

static struct collector_options collector_options_of(const struct capture_options *options)
{
	return (struct collector_options){
		.unwinder = choose_unwinder(options),
		.domains = options->domains ?: options->sample.by_pools ? COLLECTOR_PYTHON :
			   is_exact_chosen(options) ? COLLECTOR_PYTHON | COLLECTOR_MALLOC : 0,
		.traceback_limit = options->traceback_limit,
		.max_blocks = options->max_blocks,
		.max_tracebacks = options->max_tracebacks,
		.max_memory = options->max_memory,
		.sample_bytes = options->sample.bytes,
		.min_size = options->min_size,
		.max_size = max_size_of(options),
		.max_overhead = options->max_overhead,
		.follow_forks = options->follow_forks,
		.no_names = options->no_names,
		.no_return_probes = options->no_return_probes,
		.no_sampler = options->no_sampler,
		.python_retag = options->retag,
		.python_no_retag = options->no_retag,
		.java_collects = options->java_gc,
		.python_pools = options->sample.by_pools,
		.python_frames = options->python_frames,
		.sampler_rate = options->sampler_rate,
		.run_exact = options->exact,
		.injects = options->inject_bytes || options->exact,
		.go_profile = options->go_profile,
		.on_oom = options->recording.triggers.on_oom,
		.probe = options->probe.item,
		.probe_nr = options->probe.item_nr,
		.run_user = options->run_user,
	};
}

static int check_probe_specs(const struct command *command, const struct capture_options *options)
{
	struct user_allocators *user_allocators = calloc(1, sizeof(*user_allocators));
	struct reason why = { "out of memory" };
	int err = user_allocators ? 0 : -ENOMEM;

	for (size_t i = 0; i < options->probe.item_nr && !err; i++)
		err = user_allocators_add(user_allocators, options->probe.item[i], &why);
	if (user_allocators)
		user_allocators_release(user_allocators);
	free(user_allocators);
	if (err == -ENOMEM)
		return log_failure("%s", why.text);
	return err ? log_refusal(command, "--probe: %s", why.text) : EXIT_DONE;
}

static bool is_label(const char *text)
{
	size_t name = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

	return name && text[name] == '=';
}

static int check_labels(const struct command *command, const struct capture_options *options)
{
	for (size_t i = 0; i < options->label.item_nr; i++)
		if (!is_label(options->label.item[i]))
			return log_refusal(command, "--label: '%.100s' is not NAME=VALUE with a NAME of letters, digits, _, . and -",
					   options->label.item[i]);
	return EXIT_DONE;
}

struct recording_options capture_recording_options(const struct capture_options *options)
{
	struct recording_options recording = options->recording;

	recording.has_budget = options->max_overhead;
	recording.label = options->label.item;
	recording.label_nr = options->label.item_nr;
	recording_place_resolve(&recording);
	return recording;
}

/* An injected sampler goes into one process, and chooses the samples itself. Hooks go into one, too, and enter every block. */
static int check_injection(const struct command *command, const struct capture_options *options)
{
	bool is_exact = is_exact_chosen(options);
	const char *given = options->exact ? "--exact" : is_exact ? "--inject=exact" : "--inject";
	const struct {
		bool is_given;
		const char *name;
	} others[] = {
		{ is_sample_chosen(options), "--sample" },
		{ options->no_sampler, "--no-sampler" },
		{ options->follow_forks, "--follow-forks" },
		{ options->children, "--children" },
		{ options->retag, "--retag" },
		{ options->python_frames, "--frames" },
		{ !is_exact && options->domains && !(options->domains & COLLECTOR_MALLOC), "--domain without malloc" },
		{ is_exact && options->domains & ~(COLLECTOR_PYTHON | COLLECTOR_MALLOC), "--domain other than python and malloc" },
		{ is_exact && options->max_overhead, "--max-overhead" },
		{ is_exact && options->recording.triggers.peak_percent, "--on-peak" },
		{ is_exact && (options->recording.triggers.growth_bytes || options->recording.triggers.growth_percent), "--on-growth" },
		{ is_exact && options->probe.item_nr, "--probe" },
		{ options->exact && options->fast_bytes, "--fast" },
		{ options->exact && options->no_return_probes, "--no-return-probes" },
	};

	if (!options->inject_bytes && !options->exact)
		return EXIT_DONE;
	if (machine_here() != EM_X86_64)
		return log_refusal(command, "%s puts machine code of x86-64 into a program: it is refused on this machine", given);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (others[i].is_given)
			return log_refusal(command, "%s and %s exclude each other", given, others[i].name);
	return EXIT_DONE;
}

static bool has_growth_trigger(const struct capture_options *options)
{
	const struct trigger_options *triggers = &options->recording.triggers;

	return triggers->growth_bytes || triggers->growth_percent || triggers->peak_percent;
}

int check_capture(const struct command *command, const struct capture_options *options)
{
	const struct collector_options collector_options = collector_options_of(options);
	int status = check_probe_specs(command, options) ?: check_labels(command, options) ?: check_injection(command, options);
	struct map_room room;
	struct reason why;

	if (status)
		return status;
	if (options->max_size && options->min_size > options->max_size)
		return log_refusal(command, "--min-size is more than --max-size");
	if (options->domains & COLLECTOR_PAGES && has_growth_trigger(options))
		return log_refusal(command, "--domain pages goes without --on-growth and --on-peak: pages leave unseen between snapshots");
	if (options->max_memory && (options->max_blocks || options->max_tracebacks))
		return log_refusal(command, "--max-memory stands in place of --max-blocks and --max-tracebacks");
	if (map_room_choose(&room, &collector_options, &why))
		return log_refusal(command, "%s", why.text);
	return EXIT_DONE;
}

struct collector *capture_open_collector_with(const struct capture_options *options,
				    const struct collector_options *more)
{
	struct collector_options collector_options = collector_options_of(options);
	struct reason why = { "out of memory" };
	struct collector *collector;

	collector_options.system_wide = more->system_wide;
	collector_options.rule = more->rule;
	collector_options.rule_nr = more->rule_nr;
	collector_options.min_bytes = more->min_bytes;
	collector_options.run_interval_bytes = more->run_interval_bytes;
	collector_options.unseen_pages = more->unseen_pages;
	collector = collector__open(&collector_options, &why);
	if (!collector)
		log_failure("%s", why.text);
	return collector;
}

int capture_close_collector(struct collector *collector)
{
	size_t left_nr = 0;

	if (collector) {
		left_nr = collector__eject(collector);
		log_collector_notes(collector);
	}
	collector__close(collector);
	return left_nr ? EXIT_FAILED : EXIT_DONE;
}

struct collector *capture_open_collector(const struct capture_options *options)
{
	return capture_open_collector_with(options, &(struct collector_options){});
}
