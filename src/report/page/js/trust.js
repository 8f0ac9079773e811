// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Whether to trust the report: facts with a sign that says without colour whether they limit the answer, and RSS.

import { byId, element } from "./dom.js";
import { visible } from "./names.js";
import { formatBytes, formatCount, formatDuration, formatPercent, formatSeconds } from "./numbers.js";

const SIGNS = { good: "✓", warn: "!", unknown: "?" };
const OLD_MEMORY_SHARE = 0.1, HIGH_COST = 0.3;

const words = name => visible(name.replace(/_/g, " "));
const fact = (kind, name, value, why) => ({ kind, name, value: value || "", why: why || "" });

function sampleFact(report, last) {
	const bytes = report.process.sample_bytes || last.sampling?.bytes, sampled = last.cohort?.sampled;
	if (report.isFleet && sampled !== undefined)
		return fact(sampled ? "warn" : "good", sampled ? "Sampled" : "Every block",
			sampled ? formatCount(sampled) + " of " + formatCount(last.cohort.snapshots) + " snapshots"
			: "exact");
	if (!report.isSampled)
		return fact("good", "Every block", "exact");
	const rate = bytes ? "one in " + formatBytes(bytes) : "";
	if (last.sampling?.has_pools)
		return fact("warn", "Sampled", "by pools of CPython",
			"Sums are estimates. Their error is not known: a pool counts for the line that took it");
	return last.sampling?.has_gaps ? fact("warn", "Sampled", rate,
		"Sums are estimates. Their error is not known, because the recording has gaps")
		: fact("warn", "Sampled", rate ? rate + ", ± 95 %" : "± 95 %",
			"Sums are estimates. Of 100 recordings, the intervals of 95 hold the true value");
}

function gapFact({ model, report }, last) {
	if (report.isFleet) {
		// The catalogue knows only the blocks that lived through a gap.
		const stale = report.snapshots.map(s => s.gap_blocks).find(blocks => blocks?.count);
		return stale ? fact("warn", "Gaps", formatBytes(stale.size) + " may be gone")
			: fact("good", "No gaps", "that a block lived through");
	}
	const time = model.gaps.reduce((sum, g) => sum + g.to - g.from, 0), nr = model.gaps.length + report.gapsJoined;
	if (!nr)
		return fact("good", "No gaps");
	const span = report.snapshots[model.last].wall_ms - model.start, stale = last.gap_blocks?.size;
	return fact("warn", "Gaps", (span ? formatPercent(time, span) + " of the time" : formatDuration(time)) +
		(stale ? ", " + formatBytes(stale) + " may be gone" : ""),
		formatCount(nr) + " times without recording. Blocks that were allocated in a gap are missing, "
			+ "blocks that were freed in one are still shown");
}

// Losses are counted from the start of a recording on: losses of an earlier one are in earlier snapshots only.
function lossFact({ snapshots }, last) {
	const losses = Object.entries(last.losses || {});
	const isEarlier = snapshots.some(s => s !== last && Object.keys(s.losses || {}).length);
	const text = losses.map(([name, n]) => formatCount(n) + " " + words(name)).join(", ") || "in earlier snapshots";
	return losses.length || isEarlier ? fact("warn", "Losses", text, text) : fact("good", "No losses");
}

// The recorder's words for memory that it does not record; "" if it knows of none. Processes of a fleet may differ.
export const unrecordedText = report => visible([...new Set(report.processes.map(p => p.unrecorded).filter(Boolean))]
	.join("; "));

function unrecordedFacts(report) {
	const text = unrecordedText(report);
	return text ? [fact("warn wide", "Not recorded:", text, "Memory of this kind is in RSS only")] : [];
}

// The recorder's words for what resident pages say, and what they do not; "" if blocks were recorded.
const pagesText = report => visible(report.processes.map(p => p.pages).find(Boolean) || "");

function pagesFacts(report) {
	const text = pagesText(report);
	return text
		? [fact("warn wide", "Resident pages:", text, "A row has the pages that its code touched first")]
		: [];
}

function callerFact(report, last) {
	const t = last.tracebacks;
	if (!t || !last.blocks)
		return fact("unknown", "Callers", "not known");
	const bad = (t.limited || 0) + (t.broken || 0) + (t.none || 0) + (t.caller_only || 0) +
		Object.values(t.stopped || {}).reduce((sum, n) => sum + n, 0);
	const whole = (t.complete || 0) + (t.ended || 0), all = whole + bad;
	return fact(bad ? "warn" : "good", "Callers", formatPercent(whole, all) + " complete" +
		(t.limited ? ", " + formatPercent(t.limited, all) + " cut at " + report.process.traceback_limit : ""),
		"Tracebacks that reach the first function of their thread");
}

function startFact(report, last) {
	const older = report.process.rss_at_start_bytes || 0;
	if (report.isFleet || report.process.attached === undefined && !older)
		return fact("unknown", "Start", report.isFleet ? "differs by process" : "not known");
	const isLate = report.process.attached ?? older >= 1 << 20;
	if (!isLate)
		return fact("good", "From the start", "first allocation on");
	return fact(older < OLD_MEMORY_SHARE * (last.rss?.total || 1) ? "good" : "warn", "Attached later",
		older ? formatBytes(older) + " older" : "",
			"What RSS was then; blocks from before the recording are not seen");
}

// In the words of `allocsnap show`.
export function costText({ cpu_ns: cpu, cost_ns: cost, wall_ns: wall, slowdown, is_estimated: isEstimated }) {
	if (!cpu)
		return "the program has not run since";
	const percent = 100 * cost / wall, used = (isEstimated ? "about " : "") + formatSeconds(cost);
	const core = cost && percent < 0.05 ? "below 0.1" : percent.toFixed(percent < 9.95 ? 1 : 0);
	return (wall ? core + "\u00a0% of one core (" + used + " in " + formatSeconds(wall) + ")" : used) +
		"; the program's own work: " + formatSeconds(Math.max(0, cpu - cost)) + (slowdown
		? " of CPU time, ×" + slowdown.toFixed(slowdown < 9.95 ? 1 : 0) + " while recorded" : "");
}

function costFact({ cost }) {
	if (!cost)
		return fact("unknown", "Cost", "not known");
	return fact((cost.share < HIGH_COST ? "good" : cost.share === undefined ? "unknown" : "warn") + " wide", "Cost",
		costText(cost));
}

// Everything that was left out or merged, in the order of weight; shown below the facts, one line each in the dialog.
export function listNotes(report) {
	const out = [], { question, merged } = report;
	if (question.filters?.length)
		out.push("only blocks of " + visible(question.filters.join(" ")));
	if (merged?.tracebacks)
		out.push(formatCount(merged.tracebacks) + " of " + formatCount(merged.of) +
			" tracebacks are small (below " + formatPercent(merged.share, 1) +
			" each) and merged by site: cumulative sums of their callers are without them");
	if (merged?.sites)
		out.push(formatCount(merged.sites) + " of " + formatCount(merged.sites_of) +
			" sites are small (at most " + formatPercent(merged.site_share, 1) +
			" each) and merged into one row");
	if (merged?.dropped_keys?.length)
		out.push("no filter by " + merged.dropped_keys.map(words).join(", ") + ", to save room");
	if (!report.isFleet && question.given > report.snapshots.length)
		out.push(formatCount(report.snapshots.length) + " of " + formatCount(question.given) + " snapshots");
	for (const name of ["min_size", "max_size"])
		if (report.process[name])
			out.push("blocks of " + (name === "min_size" ? "at least " : "at most ") +
				formatBytes(report.process[name]));
	if (question.unjudged)
		out.push(visible(question.unjudged));
	if (report.leaks?.left_out)
		out.push("verdicts are of the last recording, without " + formatCount(report.leaks.left_out) +
			(report.leaks.left_out === 1 ? " snapshot" : " snapshots") + " of earlier ones");
	if (report.leaks?.more_lines)
		out.push(formatCount(report.leaks.more_lines) + " more lines that leak, may or grow are not marked");
	return [...out, ...report.warnings.map(visible), ...(report.leaks?.hints || []).map(visible)];
}

const PARTS = [
	["traced", rss => rss.traced, "Live blocks that are recorded"],
	["of heaps not traced", rss => rss.heap_not_traced,
		"Older than the recording, the allocator's slack, other runtimes. These are not told apart"],
	["of anonymous memory not traced", rss => rss.anonymous_not_traced,
		"Older than the recording, the allocator's slack, stacks, other runtimes. These are not told apart"],
	["files", rss => rss.files + rss.shared, "Mapped files and shared memory"],
	["stacks, other", rss => rss.stacks + rss.other, "Stacks and mappings that no probed function made"],
];

// The parts of resident pages. With samples, the parts of anonymous memory are estimates.
const PAGE_PARTS = [
	["by code", p => p.traced, "The rows: the code that touched these pages first"],
	["older than the recording", p => p.older, "Resident when it began"],
	["from before the fork", p => p.inherited, "Of the parent"],
	["files, shared", p => p.files + p.shared, "Mapped files and shared memory"],
	["not attributed", p => p.unattributed + p.by_kernel, "Nothing showed which code needed these pages"],
];

const partsOf = (table, from) => table.map(([name, of, why], i) => ({ name, why, value: of(from), cls: "p" + i }))
	.filter(p => p.value > 0);

// RSS and its parts, which together are all of it; nothing if the snapshot does not have them.
export function rssOf(snapshot) {
	const { rss, pages } = snapshot;
	if (rss)
		return { total: rss.total, parts: partsOf(PARTS, rss) };
	return pages?.resident_known
		? { total: pages.anonymous + pages.files + pages.shared, parts: partsOf(PAGE_PARTS, pages) }
		: undefined;
}

function rssBar({ total, parts }) {
	const bar = parts.map(p => element("i", { class: p.cls, title: p.name + " " + formatBytes(p.value),
		style: { "flex-grow": p.value } }));
	const legend = parts.map(p => element("span", { title: p.why }, element("i", { class: p.cls }),
		formatBytes(p.value) + " " + p.name));
	return element("div", { class: "rss" },
		element("div", { class: "rssbar", role: "img", "aria-label": "RSS by what it is made of" }, ...bar),
		element("div", { class: "rsslegend" },
			element("span", {}, element("b", {}, "RSS " + formatBytes(total)), " ="), ...legend));
}

export function drawTrust(app) {
	const { report, model } = app, last = report.snapshots[model.last], notes = listNotes(report);
	const rss = rssOf(last);
	const facts = [sampleFact(report, last), gapFact(app, last), lossFact(report, last), callerFact(report, last),
		startFact(report, last), costFact(last), ...unrecordedFacts(report), ...pagesFacts(report)];
	byId("trust").replaceChildren(
		element("div", { class: "tfacts" },
			...facts.map(f => element("div", { class: "tfact " + f.kind, title: f.why },
			element("i", {}, SIGNS[f.kind.split(" ")[0]]), element("b", {}, f.name),
				element("span", {}, f.value)))),
		rss ? rssBar(rss) : "",
		notes.length ? element("button", { class: "notes", title: notes.join("\n"), onclick: () =>
			openFacts(app) }, element("i", {}, "!"), element("span", {}, notes.join(" · "))) : "");
}

// ---- everything that is known of the recording

function factRows(report, last) {
	const p = report.process, rows = [];
	const add = (name, value) => value !== undefined && value !== null && value !== "" &&
		rows.push([name, visible(String(value))]);
	add("command", p.cmdline);
	add("program", p.exe);
	add("host, kernel", [p.host, p.kernel].filter(Boolean).join(", "));
	add("cgroup", p.cgroup);
	add("allocsnap", [p.allocsnap_version, report.allocsnap && "report by " +
		report.allocsnap].filter(Boolean).join(", "));
	add("unwinder, frames at most", [p.unwinder, p.traceback_limit].filter(Boolean).join(", "));
	add("sampled", p.sample_bytes && "one in " + formatBytes(p.sample_bytes));
	add("budget", p.max_overhead_percent && p.max_overhead_percent + " %");
	add("taken because of", last.trigger);
	add("end", last.end);
	for (const [name, n] of Object.entries(last.losses))
		rows.push(["lost: " + words(name), formatCount(n)]);
	for (const [name, n] of Object.entries(last.counters || {}))
		rows.push([words(name), formatCount(n)]);
	return rows;
}

export function openFacts(app) {
	const { report, model } = app, notes = listNotes(report), rows = report.isFleet ? []
		: factRows(report, report.snapshots[model.last]);
	const processes = report.isFleet ? report.processes.slice(0, 500).map(p =>
		[visible(p.host || "?"), visible(p.comm || "process") + "[" + p.pid + "]"]) : [];
	byId("factlist").replaceChildren(
		...notes.map(text => element("div", { class: "note" }, text)),
		element("dl", {}, ...[...rows, ...processes].flatMap(([name, value]) =>
			[element("dt", {}, name), element("dd", {}, value)])));
	byId("facts").showModal();
}
