// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The first thing to read: what leaks, since when, how fast; else what changed or holds the memory.

import { element, swatch } from "./dom.js";
import { LEAST_RSS_GROWTH } from "./leaks.js";
import { visible } from "./names.js";
import { formatBytes, formatClock, formatCount, formatDate, formatDuration, formatInterval, formatLeakRate,
	formatPercent } from "./numbers.js";
import { theme } from "./theme.js";
import { unrecordedText } from "./trust.js";

// ---- the bar at the top

// "redis-server pid 4711 on shop-1", as far as it is known.
export const processText = p => visible((p.comm || "process") + (p.pid === undefined ? "" : " pid " + p.pid) +
	(p.host ? " on " + p.host : ""));

function describeProcesses(report) {
	if (!report.isFleet) {
		const p = report.process, labels = Object.entries(p.labels || {});
		return [element("strong", { title: visible(p.cmdline || "") }, visible(p.comm || "process")),
			p.pid !== undefined && element("span", {}, "pid " + p.pid),
			p.host && element("span", {}, "on " + visible(p.host)),
				...labels.map(([k, v]) => element("span", { class: "chip" }, visible(k + "=" + v)))];
	}
	const names = [...new Set(report.processes.map(p => visible(p.comm || "process")))],
		hosts = new Set(report.processes.map(p => p.host));
	return [element("strong", {}, names.slice(0, 2).join(", ") + (names.length > 2 ? " …" : "")),
		element("span", {}, formatCount(report.processes.length) + " processes on " + formatCount(hosts.size) +
			(hosts.size === 1 ? " host" : " hosts"))];
}

// Dates and times of the whole report; "" if the snapshots have no clock.
function describeSpan(model, from, to) {
	if (!model.hasClock || to === undefined)
		return "";
	const end = (formatDate(from) === formatDate(to) ? "" : formatDate(to) + "  ") + formatClock(to) + " UTC";
	return formatDate(from) + "  " + (from === to ? end : formatClock(from) + " – " + end);
}

// How many processes each side of a question adds up.
const describeCohorts = report => report.snapshots.filter(s => s.cohort)
	.map(s => visible(s.name) + " of " + formatCount(s.cohort.processes)).join(", ");

export function drawHeader(app) {
	const { report, model } = app, s = report.snapshots, p = report.process, to = s[model.last].wall_ms;
	const from = s.length > 1 ? model.start : to, length = to > from ? formatDuration(to - from) + ", " : "";
	const what = report.isFleet ? "fleet" : processText(p);
	document.title = what + " – heap";
	document.getElementById("who").replaceChildren(...describeProcesses(report).filter(Boolean));
	document.getElementById("when").replaceChildren(describeSpan(model, from, to),
		element("span", { class: "dim" }, report.isFleet ? describeCohorts(report) : s.length > 1 ? length +
			s.length + " snapshots" : "one snapshot"));
}

// ---- the sentence

function wholeText(app) {
	const { model, report } = app, total = model.live[model.last].total;
	return [element("b", { title: formatCount(total.bytes) + " bytes" }, formatBytes(total.bytes)), " live in ",
		element("b", {}, formatCount(total.blocks)),
		" blocks at " + formatCount(model.nrSites) +
			(model.nrSites === 1 ? " site" : " sites") +
			(report.isFleet ? " of " + report.processes.length + " processes." : ".")];
}

function sayNothingLive(app) {
	const hidden = unrecordedText(app.report);
	return [element("h1", {}, hidden ? "No recorded block is live" : "Nothing is live"),
		element("p", {}, hidden ? element("span", { class: "doubt" }, "Not recorded: " + hidden + ". ") : "",
			"No block was live when this snapshot was taken. What came and went is in ",
		element("code", {}, "stats --measure temporary"),
			"; what was there before the recording is in RSS only.", unjudgedText(app))];
}

// Two snapshots or two sides: the site that changed most.
function sayDiff(app) {
	const { model } = app, rise = s => s.bytes[model.last] - s.bytes[0], sites = model.namedSites;
	const total = model.live[model.last].total.bytes - model.live[0].total.bytes,
		top = sites.reduce((best, s) => rise(s) > rise(best) ? s : best, sites[0]);
	const word = total > 0 ? "grew" : "shrank";
	if (!top || rise(top) <= 0)
		return [element("h1", {}, "Nothing grew"),
			element("p", {}, ...wholeText(app), total ? " All together " + word + " by " +
			formatBytes(Math.abs(total)) + "." : "", unjudgedText(app))];
	const interval = model.interval("change", top.tracebacks, null, { a: 0, b: model.last, unit: "bytes",
		what: "live" });
	return [element("h1", {}, element("code", { title: top.full }, top.tag), " grew by ",
		element("em", {}, formatBytes(rise(top))), interval ? element("span", { class: "dim" },
		" (" + formatInterval(interval, "bytes", true) + ")") : ""),
		element("p", {}, ...wholeText(app), total ? [" All together " + word + " by ",
			formatBytes(Math.abs(total)), "."].join("") : " All together did not change.",
		unjudgedText(app),
		element("span", { class: "doubt" }, cohortDoubt(app.report)))];
}

// Sums of more processes are larger: then growth of the whole says little.
function cohortDoubt(report) {
	const [from, to] = report.snapshots.map(s => s.cohort?.processes);
	return report.isFleet && from !== to ? " These are sums of " + formatCount(from) + " and of " +
		formatCount(to) + " processes." : "";
}

// Why verdicts are missing or not sure, in the words of `allocsnap leaks`.
function unjudgedText({ model }) {
	const { leaks } = model, likely = leaks.found.flatMap(row => row.lines);
	if (!leaks.unjudged)
		return "";
	const what = model.headline?.row.verdict === "leaks" ? " Other lines cannot be judged: "
		: " Which lines leak cannot be judged: ";
	return element("span", { class: "doubt" }, what + visible(leaks.unjudged) + ".",
		likely.length && model.last < 3 ? [" By births alone, " + formatCount(likely.length + leaks.more) +
			(likely.length + leaks.more === 1 ? " line" : " lines") + " may leak."].join("") : "");
}

function sayLargest(app) {
	const { model } = app, top = model.largest, total = model.live[model.last].total.bytes;
	const interval = model.interval("held", top.tracebacks, null, { a: -1, b: model.last, unit: "bytes",
		what: "live" });
	return [element("h1", {}, element("code", { title: top.full }, top.tag), " holds ",
		element("em", {}, formatBytes(top.bytes[model.last])),
		interval ? element("span", { class: "dim" }, " (" + formatInterval(interval, "bytes") + ")") : "",
			", " + formatPercent(top.bytes[model.last], total) + " of all live"),
	element("p", {}, ...wholeText(app), unjudgedText(app))];
}

// A judged history, in which nothing leaks: what that means, and single blocks that are reallocated.
function sayNothingLeaks(app) {
	const { model } = app, [title, rest] = visible(model.leaks.nothing).split(": ");
	const grown = model.leaks.rows.find(row => row.verdict === "grows")?.lines[0];
	return [element("h1", {}, title[0].toUpperCase() + title.slice(1)),
		element("p", {}, ...wholeText(app), rest ? " " + rest[0].toUpperCase() + rest.slice(1) + "." : "",
			...(grown ? [" ", nameFrame(app, app.report.siteFrame(grown.traceback)), " grows: ",
				visible(grown.reason), "."] : []),
			" Drag across the timeline to compare two moments.")];
}

// Lines leak, but most growth is elsewhere.
function sayGrowth(app) {
	const { model } = app, { rss } = model.leaks.growth;
	return [element("h1", {}, "Most growth of RSS, ", element("em", {}, formatBytes(rss)),
		", is in no line that leaks"),
		element("p", {}, ...wholeText(app), countLeaks(app), explainRss(app), unjudgedText(app))];
}

// The words of `leaks`: up to their colon they are the title.
function sayUnjudged(app) {
	const { leaks } = app.model, text = visible(leaks.unjudged), [title] = text.split(": ", 1);
	const rest = text.slice(title.length + 2);
	const doubt = words => element("span", { class: "doubt" }, words);
	return [element("h1", {}, title ? doubt("Which lines leak cannot be judged: " + title) : "A history"),
		element("p", {}, rest ? doubt(rest[0].toUpperCase() + rest.slice(1) + ". ") : "", ...wholeText(app),
			leaks.found.length ? countLeaks(app) : "", explainRss(app),
			" Drag across the timeline to compare two moments.")];
}

// A link that shows a frame in the icicle.
function nameFrame(app, frame) {
	const { report } = app;
	return element("a", { href: "#", title: report.fullName(frame) + "\n" + report.longPlace(frame),
		onclick: e => { e.preventDefault(); app.pickFrame(frame); } },
	report.label(frame).split("::").slice(-2).join("::"));
}

// The call that all lines of a row have in common; of one line the next own caller.
function nameCaller(app, { row }) {
	const { report } = app, [line] = row.lines;
	const frame = row.lines.length > 1 ? row.caller > 0 ? report.nodeFrame[row.caller] : -1
		: report.traceback(line.traceback).slice(report.nrPassed(line.traceback) + 1).find(f =>
			!report.isLibrary(f) && report.kind(f) < 2) ?? -1;
	if (frame < 0)
		return "";
	const words = row.lines.length > 1 ? " All are below " : line.callers > 1 ? " Most of it is called by "
		: " It is called by ";
	return element("span", {}, words, nameFrame(app, frame), " ",
		element("span", { class: "dim" }, report.place(frame)), ".");
}

// Growth of RSS, and how much of it is traced or leaks: what the picture cannot show.
function explainRss({ model }) {
	const { rss, traced, leaks, time_ns: time } = model.leaks.growth;
	if (!(rss >= LEAST_RSS_GROWTH))
		return "";
	const share = bytes => bytes > 0 ? formatPercent(Math.min(bytes, rss), rss) : "none";
	return element("span", { class: traced < 0.5 * rss ? "doubt" : "" }, " RSS ",
		element("b", {}, "+" + formatBytes(rss)), " in " + formatDuration(time / 1e6) + ", " +
			share(traced) + " of it traced, " + share(leaks) + " in lines that leak.");
}

function countLeaks({ model }) {
	const sure = model.leaks.numbers.leaks || 0, likely = model.leaks.numbers["may-leak"] || 0;
	return " " + formatCount(sure) + (sure === 1 ? " line leaks, " : " lines leak, ") + formatCount(likely) +
		" may.";
}

function sayLeaks(app) {
	const { model } = app, { row, top } = model.headline, [line] = row.lines, many = row.lines.length - 1;
	return [
		element("h1", {}, swatch(theme.tops[0], true), element("code", { title: top.full }, top.tag),
			line.verdict === "leaks" ? " leaks " : " may leak ",
			element("em", {}, formatLeakRate(line.perSecond)), " " + model.sinceText(line.since)),
		element("p", {}, unjudgedText(app), ...(many ? [" With " + formatCount(many) +
			(many === 1 ? " more line: " : " more lines: "),
		element("b", {}, formatLeakRate(row.perSecond)),
		row.least > 0 ? " (at least " + formatLeakRate(row.least) + ")." : "."]
			: [row.least > 0 ? " At least " + formatLeakRate(row.least) + "." : " Its rate is not sure."]),
		nameCaller(app, model.headline), countLeaks(app), explainRss(app),
		element("span", { class: "dim" }, " " + visible(line.reason) + ".")),
	];
}

export function drawHeadline(app) {
	const { model, report } = app, total = model.live[model.last].total, root = document.getElementById("verdict");
	const { unjudged, untraced } = model.leaks;
	if (model.headline && (!untraced || model.headline.row.verdict === "leaks"))
		root.replaceChildren(...sayLeaks(app));
	else if (unjudged && (untraced || report.snapshots.length >= 4))
		root.replaceChildren(...sayUnjudged(app));
	else if (!total.bytes && !total.blocks && (report.snapshots.length === 1 || !model.live[0].total.bytes))
		root.replaceChildren(...sayNothingLive(app));
	else if (report.snapshots.length === 1)
		root.replaceChildren(...sayLargest(app));
	else if (report.snapshots.length < 4)
		root.replaceChildren(...sayDiff(app));
	else if (model.leaks.found.length && !model.leaks.explains())
		root.replaceChildren(...sayGrowth(app));
	else
		root.replaceChildren(...(model.leaks.nothing ? sayNothingLeaks(app) : sayUnjudged(app)));
}
