// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The lines above the rows: facts that keep a reader honest. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "render.h"
#include "top/layout.h"

#define STATE_MAX 128
#define AGE_SHOWN_NS (5 * SECOND_NS) /* rows of a younger snapshot are as good as of now */

/* The state of the view: "PAUSED", "ENDED…" */
static const char *state_text(char text[STATE_MAX], const struct top_model *model)
{
	uint64_t asked_ns = model->now_ns > model->asked_ns ? model->now_ns - model->asked_ns : 0;

	*text = '\0';
	if (!model->is_live)
		snprintf(text, STATE_MAX, "%s", model->answer && model->answer->time ? model->answer->time : "");
	else if (model->answer && model->answer->process.has_ended)
		snprintf(text, STATE_MAX, "ENDED: these are its last figures");
	else if (model->is_over)
		snprintf(text, STATE_MAX, "NOT RECORDED any more");
	else if (model->is_paused)
		snprintf(text, STATE_MAX, "PAUSED");
	else if (model->is_asked && asked_ns > AGE_SHOWN_NS)
		snprintf(text, STATE_MAX, "next snapshot under way, %.0f s", asked_ns / 1e9);
	return text;
}

/* "server 4712 on shop-1 · every block · recorded 1:00 · PAUSED", as far as it is known. */
static void put_title(const struct top_model *model, struct top_screen *screen)
{
	const struct top_answer *answer = model->answer;
	const struct top_process *process = &answer->process;
	bool has_host = answer->host && !model->is_live;
	char state[STATE_MAX], pid[32] = "", recorded[64] = "";
	uint64_t seconds = process->recorded_ns / SECOND_NS;

	state_text(state, model);
	if (process->pid)
		snprintf(pid, sizeof(pid), " %" PRId64, process->pid);
	if (process->recorded_ns)
		snprintf(recorded, sizeof(recorded), " · recorded %" PRIu64 ":%02" PRIu64, seconds / 60, seconds % 60);
	top_screen_put(screen, *state && model->is_live ? TOP_STYLE_WARNING : TOP_STYLE_TITLE, "%s%s%s%s · %s%s%s%s%s%s",
		       process->comm, pid, has_host ? " on " : "", has_host ? answer->host : "",
		       process->is_estimated ? "samples" : "every block", answer->rate ? ", " : "", answer->rate ?: "", recorded,
		       *state ? " · " : "", state);
}

static void put_process_memory(const struct top_answer *answer, struct top_screen *screen)
{
	const struct top_process *process = &answer->process;
	char bytes[SIZE_TEXT_MAX], peak[SIZE_TEXT_MAX], rss[SIZE_TEXT_MAX], rate[TOP_RATE_MAX], growth[TOP_RATE_MAX + 8] = "";
	char rss_text[SIZE_TEXT_MAX + 8] = "", peak_text[SIZE_TEXT_MAX + 8] = "";

	if (answer->window_ns)
		snprintf(growth, sizeof(growth), " (%s/min)", top_rate_text(rate, answer->total_diff.size, answer->window_ns));
	if (process->peak_bytes)
		snprintf(peak_text, sizeof(peak_text), ", peak %s", size_text(peak, process->peak_bytes, false));
	if (process->rss_bytes)
		snprintf(rss_text, sizeof(rss_text), ", RSS %s", size_text(rss, process->rss_bytes, false));
	top_screen_put(screen, TOP_STYLE_PLAIN, "traced %s%s in %" PRIu64 " blocks%s%s%s",
		       process->is_estimated ? "about " : "", size_text(bytes, process->bytes, false), process->blocks,
		       growth, rss_text, peak_text);
}

static void put_recording_cost(const struct top_model *model, struct top_screen *screen)
{
	const struct top_process *process = &model->answer->process;
	char share[UNIT_TEXT_MAX], cost[UNIT_TEXT_MAX + 64] = "cost of the recording: not known", own[64] = "";

	if (process->cost_is_known)
		snprintf(cost, sizeof(cost), "recording costs the process %s",
			 format_core_share(share, process->cost_ns, process->recorded_ns));
	if (model->own_share >= 0)
		snprintf(own, sizeof(own), "; allocsnap itself: %.1f %%", 100 * model->own_share);
	top_screen_put(screen, process->is_paused ? TOP_STYLE_WARNING : TOP_STYLE_PLAIN, "%s%s%s",
		       cost, process->is_paused ? ", pausing" : process->is_thinned ? ", sampling to stay in the budget" : "",
		       own);
}

static void put_losses(const struct top_answer *answer, struct top_screen *screen)
{
	bool is_whole = !answer->losses && !answer->gaps;

	top_screen_put(screen, is_whole ? TOP_STYLE_PLAIN : TOP_STYLE_WARNING, "%s; %s", answer->losses ?: "lost nothing",
		       answer->gaps ?: "no gaps");
	if (answer->unjudged_growth)
		top_screen_put(screen, TOP_STYLE_WARNING, "growth cannot be judged: %s", answer->unjudged_growth);
}

/* "2 lines leak, 1 may leak (observed for 1:30)" */
static void put_verdicts(const struct top_model *model, struct top_screen *screen)
{
	const struct top_answer *answer = model->answer;
	uint64_t seconds = answer->judged_ns / SECOND_NS;
	const char *unsure = answer->unjudged ? "; not sure: " : "";

	if (!answer->is_judged)
		top_screen_put(screen, TOP_STYLE_PLAIN, "leaks: %s",
			       answer->unjudged ?: model->is_live ? "not judged yet, observe longer" : "not judged");
	else if (!answer->sure_nr && !answer->likely_nr)
		top_screen_put(screen, TOP_STYLE_PLAIN, "nothing leaks so far (observed for %" PRIu64 ":%02" PRIu64 ")%s%s",
			       seconds / 60, seconds % 60, unsure, answer->unjudged ?: "");
	else
		top_screen_put(screen, answer->sure_nr ? TOP_STYLE_SURE : TOP_STYLE_LIKELY,
			       "%" PRIu32 " line%s leak%s, %" PRIu32 " may leak (observed for %" PRIu64 ":%02" PRIu64 ")%s%s",
			       answer->sure_nr, answer->sure_nr == 1 ? "" : "s", answer->sure_nr == 1 ? "s" : "",
			       answer->likely_nr, seconds / 60, seconds % 60, unsure, answer->unjudged ?: "");
}

static void put_view(const struct top_model *model, struct top_screen *screen)
{
	const struct top_answer *answer = model->answer;
	uint64_t seconds = (answer->window_ns + SECOND_NS / 2) / SECOND_NS;
	uint64_t age_ns = model->now_ns > answer->now_ns ? model->now_ns - answer->now_ns : 0;
	char growth[64] = "", filter[TOP_FILTER_MAX + 64] = "", age[64] = "";

	if (answer->window_ns)
		snprintf(growth, sizeof(growth), " · growth over %" PRIu64 ":%02" PRIu64, seconds / 60, seconds % 60);
	if (*model->filter)
		snprintf(filter, sizeof(filter), " · with '%s': %zu of", model->filter, model->shown_nr);
	if (model->is_live && age_ns >= AGE_SHOWN_NS)
		snprintf(age, sizeof(age), ", as of %.0f s ago", age_ns / 1e9);
	top_screen_put(screen, TOP_STYLE_PLAIN, "by %s · %s%s%s%s%zu row%s%s", top_key_type_title(model->answer->key_type),
		       top_order_name(model->order), growth, filter, *filter ? " " : " · ", answer->row_nr,
		       answer->row_nr == 1 ? "" : "s", age);
}

void top_layout_facts(const struct top_model *model, struct top_screen *screen, bool with_view)
{
	if (!model->answer) {
		top_screen_put(screen, TOP_STYLE_TITLE, "allocsnap top");
		top_screen_put(screen, TOP_STYLE_PLAIN, "%s", model->is_over ? "nothing was recorded" :
			       model->is_live ? "waiting for the first snapshot …" : "reading …");
		return;
	}
	put_title(model, screen);
	put_process_memory(model->answer, screen);
	put_recording_cost(model, screen);
	put_losses(model->answer, screen);
	put_verdicts(model, screen);
	if (with_view)
		put_view(model, screen);
}
