// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Verdicts about leaks in words. */
#include "render/leak_answer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/units.h"
#include "engine/estimate.h"
#include "engine/told_samples.h"
#include "render.h"
#include "render/caveats.h"
#include "render/clean.h"
#include "render/facts.h"
#include "render/page_facts.h"
#include "snapshot.h"

#define SECOND 1e9
#define REASON_INDENT 8
#define REASON_COLUMNS 100

static const struct {
	const char *name, *word;
} leak_kinds[LEAK_KIND_NR] = {
	[LEAK_SURE] = { "leaks", "LEAKS" },
	[LEAK_LIKELY] = { "may-leak", "MAY LEAK" },
	[LEAK_GROWS] = { "grows", "(grows)" },
	[LEAK_YOUNG] = { "young", "(young)" },
	[LEAK_SETTLED] = { "settled", "settled" },
	[LEAK_FREED] = { "freed", "freed" },
	[LEAK_GAPS] = { "gaps", "(gaps)" },
	[LEAK_FEW] = { "few", "few" },
};

const char *leak_kind_name(enum leak_kind kind)
{
	return leak_kinds[kind].name;
}

const char *leak_kind_word(enum leak_kind kind)
{
	return leak_kinds[kind].word;
}

const char *leak_since_text(char text[LEAK_SINCE_MAX], const struct leak_window *window, uint64_t since_ns)
{
	uint64_t seconds = since_ns / 1000000000;

	if (since_ns < window->span_ns / 10)
		return "all the time";
	snprintf(text, LEAK_SINCE_MAX, "since %" PRIu64 ":%02" PRIu64, seconds / 60, seconds % 60);
	return text;
}

const char *leak_rate_text(char text[LEAK_RATE_MAX], double bytes_per_s)
{
	char size[SIZE_TEXT_MAX];

	snprintf(text, LEAK_RATE_MAX, "%s/min", size_text(size, bytes_per_s * 60, false));
	return text;
}

const char *leak_rates_text(char text[LEAK_RATES_MAX], double bytes_per_s, double least_bytes_per_s)
{
	char rate[UNIT_TEXT_MAX], least[UNIT_TEXT_MAX];

	if (least_bytes_per_s > 0) {
		format_two_sizes(rate, bytes_per_s * 60, least, least_bytes_per_s * 60);
		snprintf(text, LEAK_RATES_MAX, "%s/min (at least %s/min)", rate, least);
	} else {
		leak_rate_text(text, bytes_per_s);
	}
	return text;
}

/* "0:35", "1:02:03": minutes and seconds after the beginning. */
#define CLOCK_TEXT_MAX 32
static const char *clock_text(char text[CLOCK_TEXT_MAX], uint64_t ns)
{
	uint64_t seconds = ns / 1000000000;

	if (seconds < 3600)
		snprintf(text, CLOCK_TEXT_MAX, "%" PRIu64 ":%02" PRIu64, seconds / 60, seconds % 60);
	else
		snprintf(text, CLOCK_TEXT_MAX, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, seconds / 3600, seconds / 60 % 60,
			 seconds % 60);
	return text;
}

/* Survivors are counted as they were recorded. */
static const char *recorded_unit(const struct leak_verdict *verdict)
{
	return verdict->by_pools ? "pools" : "blocks";
}

/* In which parts of the time survivors were born: "each eighth of the time", "2 of 3 eighths of the time since the first". */
static void put_eighths(FILE *out, const struct leak_verdict *verdict)
{
	if (verdict->periods < verdict->span || verdict->doubts & LEAK_DOUBT_BURSTS)
		fprintf(out, "%" PRIu32 " of %" PRIu32 " eighths of the time", verdict->periods, verdict->span);
	else
		fputs("each eighth of the time", out);
	if (verdict->span < LEAK_PERIODS)
		fputs(" since the first", out);
}

static void put_doubt(FILE *out, const struct leak_verdict *verdict, enum leak_doubt doubt)
{
	char clock[CLOCK_TEXT_MAX];

	switch (doubt) {
	case LEAK_DOUBT_FEW:
		fprintf(out, "only %" PRIu64 " %s so far: observe longer", verdict->survivors, recorded_unit(verdict));
		break;
	case LEAK_DOUBT_BURSTS:
		fputs("born in only ", out);
		put_eighths(out, verdict);
		fputs(": observe longer", out);
		break;
	case LEAK_DOUBT_SLOWING:
		fprintf(out, "less than half as fast as before");
		break;
	case LEAK_DOUBT_GAPS:
		fprintf(out, "gaps may have hidden frees: record with --sample instead of --max-overhead");
		break;
	case LEAK_DOUBT_BATCH:
		fprintf(out, "what was from before %s was freed at once, and this may be, too",
			clock_text(clock, verdict->since_ns));
		break;
	case LEAK_DOUBT_SNAPSHOTS:
		fprintf(out, "only birth times show it: record at least four snapshots (40 s at the default interval)");
		break;
	}
}

static const struct {
	enum leak_doubt doubt;
	const char *name;
} leak_doubts[] = {
	{ LEAK_DOUBT_FEW, "few" },   { LEAK_DOUBT_BURSTS, "bursts" }, { LEAK_DOUBT_SLOWING, "slowing" },
	{ LEAK_DOUBT_GAPS, "gaps" }, { LEAK_DOUBT_BATCH, "batch" },   { LEAK_DOUBT_SNAPSHOTS, "snapshots" },
};

static void put_doubts(FILE *out, const struct leak_verdict *verdict)
{
	for (size_t i = 0; i < ARRAY_SIZE(leak_doubts); i++) {
		if (!(verdict->doubts & leak_doubts[i].doubt))
			continue;
		fputs("; ", out);
		put_doubt(out, verdict, leak_doubts[i].doubt);
	}
}

/* Counts blocks that were allocated until the last snapshot, and had been freed by then; as many were seen to be freed. */
static double count_freed(const struct leak_window *window, const struct leak_verdict *verdict)
{
	double freed = verdict->allocated * (1 - window->late_share) - verdict->live;

	return freed > verdict->gone ? freed : verdict->gone;
}

/* One traceback may have three times the share of all in what came while the snapshot was taken. */
static bool is_nothing_freed(const struct leak_window *window, const struct leak_verdict *verdict)
{
	return 100 * verdict->gone <= verdict->allocated &&
	       verdict->allocated - verdict->live <= (0.01 + 3 * window->late_share) * verdict->allocated;
}

static void put_survivors(FILE *out, const struct leak_window *window, const struct leak_verdict *verdict)
{
	double horizon = verdict->horizon_ns / SECOND;

	fprintf(out, "%" PRIu64 " of %" PRIu64 " %s older than %.1f s are live", verdict->survivors,
		verdict->survivors + verdict->freed, recorded_unit(verdict), horizon);
	if (verdict->kind <= LEAK_LIKELY && !(verdict->doubts & (LEAK_DOUBT_SNAPSHOTS | LEAK_DOUBT_BURSTS))) {
		fputs(", born in ", out);
		put_eighths(out, verdict);
	}
	if (is_nothing_freed(window, verdict))
		fprintf(out, "; nothing from here was freed so far: a leak, or something that takes more than %.0f s to "
			"fill", window->span_ns / SECOND);
	else
		fprintf(out, "; of %s%.0f %sallocated, %.0f were freed, nearly all of them before they were %.1f s old",
			verdict->by_pools ? "about " : "", verdict->allocated, verdict->by_pools ? "objects " : "",
			count_freed(window, verdict), horizon);
	if (verdict->by_pools)
		fputs("; another line may keep what is in them", out);
}

static void put_innocence(FILE *out, const struct leak_verdict *verdict)
{
	char clock[CLOCK_TEXT_MAX], size[SIZE_TEXT_MAX];

	size_text(size, verdict->bytes, false);
	if (verdict->kind == LEAK_GROWS && verdict->by_pages)
		fprintf(out, "grew by %s of resident pages: this code needed fresh memory, as it, or other code, keeps what there was", size);
	else if (verdict->kind == LEAK_GROWS)
		fprintf(out, "one block, or a few, reallocated and larger %" PRIu32 " times, now %s: often the list or table "
			"of something that leaks", verdict->periods, size);
	else if (verdict->kind == LEAK_YOUNG)
		fprintf(out, "all of it is from after %s: observe longer", clock_text(clock, verdict->since_ns));
	else if (verdict->kind == LEAK_SETTLED)
		fprintf(out, "grew until %s, by %s, then hardly any more", clock_text(clock, verdict->last_ns), size);
	else if (verdict->kind == LEAK_FREED)
		fprintf(out, "blocks of any age are freed: %.0f of %.0f are live", verdict->live, verdict->allocated);
	else if (verdict->kind == LEAK_GAPS)
		fprintf(out, "gaps may have hidden more frees than blocks are left: record with --sample instead of "
			"--max-overhead");
	else
		fprintf(out, "too few blocks to judge: %.0f", verdict->live);
}

char *leak_reason_text(const struct leak_window *window, const struct leak_verdict *verdict, uint32_t summed)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	if (verdict->kind > LEAK_LIKELY) {
		put_innocence(out, verdict);
	} else {
		put_survivors(out, window, verdict);
		put_doubts(out, verdict);
	}
	if (summed)
		fprintf(out, "; %" PRIu32 " tracebacks together", summed);
	if (!fclose(out))
		return text;
	free(text);
	return NULL;
}

static void emit_verdict(struct emitter *out, const struct leak_verdict *verdict)
{
	emit_text(out, "verdict", leak_kind_name(verdict->kind));
	emit_real(out, "bytes_per_s", verdict->bytes_per_s);
	emit_real(out, "least_bytes_per_s", verdict->least_bytes_per_s);
	emit_real(out, "blocks_per_s", verdict->blocks_per_s);
	emit_real(out, "bytes", verdict->bytes);
	emit_real(out, "allocated", verdict->allocated);
	emit_real(out, "live", verdict->live);
	emit_uint(out, "since_ns", verdict->since_ns);
	emit_uint(out, "last_ns", verdict->last_ns);
	emit_uint(out, "horizon_ns", verdict->horizon_ns);
	emit_uint(out, "survivors", verdict->survivors);
	emit_uint(out, "freed", verdict->freed);
	emit_uint(out, "late", verdict->late);
	emit_uint(out, "early", verdict->early);
	emit_uint(out, "periods", verdict->periods);
	emit_uint(out, "span", verdict->span);
	if (verdict->kind > LEAK_LIKELY)
		return;
	emit_list(out, "doubts");
	for (size_t i = 0; i < ARRAY_SIZE(leak_doubts); i++)
		if (verdict->doubts & leak_doubts[i].doubt)
			emit_text(out, NULL, leak_doubts[i].name);
	emit_end(out);
}

void emit_judgement(struct emitter *out, const struct leak_window *window, const struct leak_verdict *verdict,
		    uint32_t summed)
{
	char *reason = leak_reason_text(window, verdict, summed);

	if (!reason)
		emit_err(out, -ENOMEM);
	emit_verdict(out, verdict);
	emit_text(out, "reason", reason);
	if (emits_text(out))
		emit_err(out, put_words(out->file, REASON_INDENT, REASON_COLUMNS, reason));
	free(reason);
}

int leak_caller_frames(const struct leaks *leaks, const struct leak_caller *caller, struct frame_view **ret,
		       uint32_t *ret_nframe)
{
	uint32_t total, nframe;
	int err = traceback_read(leaks->last, caller->traceback, ret, &nframe, &total);

	if (!err)
		*ret_nframe = nframe - caller->skipped;
	return err;
}

size_t leaks_shown(const struct leak_answer *answer)
{
	const struct leaks *leaks = answer->leaks;
	size_t nr = 0;

	if (answer->is_void)
		return 0;
	while (nr < leaks->bundle_nr &&
	       (answer->shows_all || leaks->line[leaks->bundle[nr].first].verdict.kind <= LEAK_GROWS))
		nr++;
	return answer->top && answer->top < nr ? answer->top : nr;
}

/* ---- nothing leaks ------------------------------------------------------------------------- */

const char *leaks_nothing_text(char text[LEAKS_NOTHING_MAX], const struct leak_blind *blind)
{
	char size[SIZE_TEXT_MAX], rate[LEAK_RATE_MAX];
	double seconds = blind->span_ns / SECOND;
	int len;

	if (!blind->sample_bytes)
		len = snprintf(text, LEAKS_NOTHING_MAX, "no line leaks that can be seen in %.0f s: leaks of fewer than %d blocks "
			       "in that time cannot be seen", seconds, LEAK_SURVIVORS_SURE);
	else
		len = snprintf(text, LEAKS_NOTHING_MAX, "no line leaks that can be seen in %.0f s with samples of one in %s: "
			       "leaks of less than %s cannot be seen", seconds, size_text(size, blind->sample_bytes, false),
			       leak_rate_text(rate, LEAK_SURVIVORS_LEAST * (double)blind->sample_bytes / seconds));
	if (blind->unseen_heap && len < LEAKS_NOTHING_MAX)
		snprintf(text + len, LEAKS_NOTHING_MAX - len, ", nor what is not recorded: %s", blind->unseen_heap);
	return text;
}

/* ---- what cannot be judged ------------------------------------------------------------------ */

const char *untraced_words(const struct untraced_growth *growth)
{
	static const char *const words[LEAK_UNTRACED_NR] = {
		[LEAK_UNTRACED_UNKNOWN] = "it may be mappings ('--domain malloc,mmap'), an allocator or a runtime that is not "
					  "recorded ('doctor PID' names those), or older memory that was touched only now; "
					  "'--domain pages' names the code that needed it",
		[LEAK_UNTRACED_SMALL_OBJECTS] = "Python takes its small objects from arenas: '--domain python' traces each "
						"object; where that is refused, '--domain malloc,mmap' shows what takes new "
						"arenas, and with PYTHONMALLOC=malloc in its environment each object is traced",
		[LEAK_UNTRACED_LARGE_OBJECTS] = "only small objects of Python are recorded: '--sample pools,large' traces its "
						"larger ones, too, '--domain malloc' what its libraries allocate",
		[LEAK_UNTRACED_JAVA] = "only Java's living objects are traced: it may be garbage and free room in Java's heap, or native "
				       "memory, which '--domain malloc' traces",
		[LEAK_UNTRACED_PYTHONS_HEAP] = "only Python's objects are recorded: '--domain malloc' traces what C code takes "
					       "from the heap; 'census' shows how full Python's arenas are",
	};

	return words[growth->kind] ?: growth->name;
}

const char *untraced_text(char text[LEAK_UNJUDGED_MAX], const struct untraced_growth *growth)
{
	char size[SIZE_TEXT_MAX];

	snprintf(text, LEAK_UNJUDGED_MAX, "%.0f %% of the growth of anonymous memory, %s, is in no traced block: %s",
		 100 * growth->bytes / growth->anonymous_bytes, size_text(size, growth->bytes, false), untraced_words(growth));
	return text;
}

/* "too few samples: 3120 KiB by which anonymous memory grew are in none of them; observe longer, or --inject=64K" */
static const char *few_samples_text(char text[LEAK_UNJUDGED_MAX], const struct leaks *leaks)
{
	const char *sampler = snapshot__metadata(leaks->last, "sampler"), *kind = snapshot__metadata(leaks->last, "sampler_kind");
	uint64_t finer = snapshot__metadata_u64(leaks->last, "sample_bytes", 0) / 8 / 1024;
	bool is_injected = kind && !strcmp(kind, "injected");
	char size[SIZE_TEXT_MAX], option[64] = "";

	if (finer && (is_injected || !sampler) && !snapshot_is_of_go(leaks->last))
		snprintf(option, sizeof(option), ", or %s%" PRIu64 "K", is_injected ? "--inject=" : "--sample ", finer);
	snprintf(text, LEAK_UNJUDGED_MAX, "too few samples: %s by which anonymous memory grew are in none of them; observe "
		 "longer%s", size_text(size, leaks_missed_growth(leaks), false), option);
	return text;
}

const char *leak_unjudged_text(char text[LEAK_UNJUDGED_MAX], enum leak_unjudged unjudged, const struct leaks *leaks)
{
	uint32_t nr = leaks->window.snapshot_nr;
	struct untraced_growth untraced;
	struct reason doubt = {};
	char gaps[GAPS_TEXT_MAX];

	switch (unjudged) {
	case LEAK_UNJUDGED_DROPPED:
		snprintf(text, LEAK_UNJUDGED_MAX, "%" PRIu64 " blocks were dropped for want of room: record with more room "
			 "(--max-blocks), or with --sample", snapshot__counter(leaks->last, "blocks_dropped"));
		return text;
	case LEAK_UNJUDGED_UNBORN:
		snprintf(text, LEAK_UNJUDGED_MAX, "the birth of %" PRIu64 " blocks is not known", leaks->unborn);
		return text;
	case LEAK_UNJUDGED_DOUBTED:
		if (told_samples_doubt(leaks->last, &doubt))
			snprintf(text, LEAK_UNJUDGED_MAX, "%.500s", doubt.text);
		return text;
	case LEAK_UNJUDGED_UNCOLLECTED:
		snprintf(text, LEAK_UNJUDGED_MAX, "Java has %s collected its whole heap while it was observed, and what it has not collected may be "
			 "garbage: observe longer, or with --java-gc, for which the program stands still at each snapshot",
			 snapshot__metadata_u64(leaks->last, "java_whole_gc_count", 0) ? "only once" : "never");
		return text;
	case LEAK_UNJUDGED_GAPS:
		snprintf(text, LEAK_UNJUDGED_MAX, "nothing was recorded in %s: frees were missed; record with --inject or "
			 "--sample instead of --max-overhead", gaps_text(gaps, leaks->last));
		return text;
	case LEAK_UNJUDGED_UNTRACED:
		untraced = leaks_find_untraced(leaks);
		return untraced_text(text, &untraced);
	case LEAK_UNJUDGED_SAMPLES:
		return few_samples_text(text, leaks);
	case LEAK_UNJUDGED_SNAPSHOTS:
		snprintf(text, LEAK_UNJUDGED_MAX, "%" PRIu32 " snapshot%s; at least %d are needed", nr, nr == 1 ? "" : "s",
			 LEAK_SNAPSHOTS_LEAST);
		return text;
	case LEAK_UNJUDGED_PAGES:
		return PAGES_MEANING;
	case LEAK_UNJUDGED_GARBAGE:
		snprintf(text, LEAK_UNJUDGED_MAX, "Go has collected garbage %s while it was observed: only lines that have freed hardly anything "
			 "since the program's start are judged, as other lines may have garbage only; observe longer",
			 leaks_collection_nr(leaks) ? "once" : "not once");
		return text;
	case LEAK_JUDGED:
	case LEAK_UNJUDGED_NR:
		break;
	}
	return NULL;
}

/* ---- hints ---------------------------------------------------------------------------------- */

/* How to get the lines of code that a runtime interprets or compiles (engine/leak_runtime.h). */
static const char *const leak_hint[LEAK_HINT_NR] = {
	[LEAK_HINT_KEPT_LINES] = KEPT_LINES_TEXT,
	[LEAK_HINT_POOLS] = "a pool of Python's small objects counts for the line that took it, also if another line keeps what is "
			    "in it: 'leaks PID --inject=exact' judges each object, or 'leaks PID --domain python', which slows it",
	[LEAK_HINT_PAGES] = "pages show what grew; 'doctor PID' says whether a domain names the lines that leak: 'leaks PID --domain malloc', "
			    "of Python '--domain python'",
	[LEAK_HINT_NAMELESS] = NAMELESS_TEXT,
	[LEAK_RUNTIME_PYTHON] = "Python code calls what leaks: '--domain python' names its lines; where that is refused, run "
				"it with 'python3 -X tracemalloc': tracemalloc-to-json reads its snapshots",
	[LEAK_RUNTIME_JAVASCRIPT] = "JavaScript calls what leaks. It is native memory, as of Buffers, which 'node --heap-prof' does "
				    "not show: start it with 'node --perf-basic-prof --interpreted-frames-native-stack', and "
				    "rows name its functions",
	[LEAK_RUNTIME_JAVA] = "Java code calls what leaks: 'leaks PID --domain java' judges its objects, with Java's lines; "
			      "'census --java live PID' counts them by class",
};

unsigned int leak_answer_hints(const struct leak_answer *answer)
{
	const struct leaks *leaks = answer->leaks;
	size_t shown = leaks_shown(answer);
	unsigned int recording = leak_recording_hints(leaks->last), runtimes = 0;

	for (size_t i = 0; i < shown; i++)
		for (size_t k = 0; k < leaks->bundle[i].nr; k++) {
			const struct leak_line *line = &leaks->line[leaks->bundle[i].first + k];

			if (line->verdict.kind > LEAK_GROWS)
				continue;
			runtimes |= leak_line_runtimes(leaks, line);
			if (leak_line_is_nameless(leaks, line))
				runtimes |= 1u << LEAK_HINT_NAMELESS;
		}
	return runtimes | (shown ? recording : recording & ~(1u << LEAK_HINT_POOLS));
}

void emit_leak_hints(struct emitter *out, unsigned int hints)
{
	if (!hints)
		return;
	emit_list(out, "hints");
	for (int i = 0; i < LEAK_HINT_NR; i++) {
		if (!(hints & 1u << i))
			continue;
		emit_text(out, NULL, leak_hint[i]);
		emit_line(out, "hint: %s", leak_hint[i]);
	}
	emit_end(out);
}
