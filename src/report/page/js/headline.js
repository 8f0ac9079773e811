// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The first thing to read: what grows, since when, how fast; else what holds the memory.

import { element, swatch } from "./dom.js";
import { visible } from "./names.js";
import { formatBytes, formatClock, formatCount, formatDate, formatDuration, formatInterval, formatPercent,
	formatRate } from "./numbers.js";
import { theme } from "./theme.js";

const LEAST_RSS_GROWTH = 1 << 20;

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
		" blocks at " + formatCount(model.verdict.nrSites) +
			(model.verdict.nrSites === 1 ? " site" : " sites") +
			(report.isFleet ? " of " + report.processes.length + " processes." : ".")];
}

function sayNothingLive() {
	return [element("h1", {}, "Nothing is live"),
		element("p", {}, "No block was live when this snapshot was taken. What came and went is in ",
		element("code", {}, "stats --measure temporary"),
			"; what was there before the recording is in RSS only.")];
}

// Two snapshots or two sides: the site that changed most.
function sayDiff(app) {
	const { model } = app, rise = s => s.bytes[model.last] - s.bytes[0], sites = model.frameSites("line");
	const total = model.live[model.last].total.bytes - model.live[0].total.bytes,
		top = sites.reduce((best, s) => rise(s) > rise(best) ? s : best, sites[0]);
	const word = total > 0 ? "grew" : "shrank";
	if (!top || rise(top) <= 0)
		return [element("h1", {}, "Nothing grew"),
			element("p", {}, ...wholeText(app), total ? " All together " + word + " by " +
			formatBytes(Math.abs(total)) + "." : "")];
	const interval = model.interval("change", top.tracebacks, null, { a: 0, b: model.last, unit: "bytes",
		what: "live" });
	return [element("h1", {}, element("code", { title: top.full }, top.tag), " grew by ",
		element("em", {}, formatBytes(rise(top))), interval ? element("span", { class: "dim" },
		" (" + formatInterval(interval, "bytes", true) + ")") : ""),
		element("p", {}, ...wholeText(app), total ? [" All together " + word + " by ",
			formatBytes(Math.abs(total)), "."].join("") : " All together did not change.", fewText(app),
		element("span", { class: "doubt" }, cohortDoubt(app.report)))];
}

// Sums of more processes are larger: then growth of the whole says little.
function cohortDoubt(report) {
	const [from, to] = report.snapshots.map(s => s.cohort?.processes);
	return report.isFleet && from !== to ? " These are sums of " + formatCount(from) + " and of " +
		formatCount(to) + " processes." : "";
}

function fewText(app) {
	const one = app.report.snapshots.length === 1 ? "One snapshot cannot tell what grows: "
		: "So few snapshots cannot tell what grows steadily: ";
	return app.report.isFleet ? "" : element("span", { class: "dim" }, " " + one,
		element("code", {}, "attach --interval 60s"), " and report the folder.");
}

function sayLargest(app) {
	const { model } = app, top = model.largest, total = model.live[model.last].total.bytes;
	const interval = model.interval("held", top.tracebacks, null, { a: -1, b: model.last, unit: "bytes",
		what: "live" });
	return [element("h1", {}, element("code", { title: top.full }, top.tag), " holds ",
		element("em", {}, formatBytes(top.bytes[model.last])),
		interval ? element("span", { class: "dim" }, " (" + formatInterval(interval, "bytes") + ")") : "",
			", " + formatPercent(top.bytes[model.last], total) + " of all live"),
	element("p", {}, ...wholeText(app), fewText(app))];
}

function sayNothingGrows(app) {
	const { model, report } = app, s = report.snapshots, span = model.times ? " of these " +
		formatDuration(s[model.last].wall_ms - s[0].wall_ms) : "";
	return [element("h1", {}, "Nothing grows steadily"),
		element("p", {}, ...wholeText(app), " No large part of it has gone up from some moment to the end" +
		span +
		". Drag across the timeline to compare two moments.")];
}

// Growth of RSS beside that of the traced: what the picture cannot show.
function explainRss(app, from, to) {
	const s = app.report.snapshots, rss = s[from].rss && s[to].rss ? s[to].rss.total - s[from].rss.total : 0;
	if (rss < LEAST_RSS_GROWTH)
		return "";
	const share = (app.model.live[to].total.bytes - app.model.live[from].total.bytes) / rss;
	return element("span", { class: share < 0.5 ? "doubt" : "" }, " RSS ", element("b", {}, "+" + formatBytes(rss)),
		share > 0.95 ? ", all of it traced." : ", " + (share < 0.005 ? "none" : formatPercent(share, 1)) +
			" of it traced.");
}

function nameCaller(app, verdict) {
	const { report } = app, { caller, top } = verdict;
	if (!caller || caller.frame === top.frame)
		return "";
	const link = element("a", { href: "#", title: report.fullName(caller.frame),
		onclick: e => { e.preventDefault(); app.pickFrame(caller.frame); } },
		report.label(caller.frame).split("::").slice(-2).join("::"));
	return element("span", {}, " All through ", link, " ",
		element("span", { class: "dim" }, report.place(caller.frame)), ".");
}

function growthDoubts(app, verdict) {
	const { model, report } = app, paused = model.gapShare(verdict.from, verdict.last), out = [];
	if (paused > 0.1)
		out.push(" Recording was paused " + formatPercent(paused, 1) + " of this time: rates are uncertain.");
	const interval = model.interval("change", verdict.top.tracebacks, null,
		{ a: verdict.from, b: verdict.last, unit: "bytes", what: "live" });
	if (interval) {
		const seconds = model.times[verdict.last] - model.times[verdict.from];
		out.push(" From samples: " + formatRate(interval[0] / seconds) + " to " +
			formatRate(interval[1] / seconds) + ".");
	}
	if (report.question.unjudged)
		out.push(" " + visible(report.question.unjudged) + ".");
	return out.map(text => element("span", { class: "doubt" }, text));
}

function sayGrowth(app) {
	const v = app.model.verdict, many = v.together.length - 1;
	return [
		element("h1", {}, swatch(theme.tops[0], true), element("code", { title: v.top.full }, v.top.tag),
			" grows ", element("em", {}, formatRate(v.topPerSecond)), " since ",
			element("em", {}, app.model.momentOf(v.from))),
		element("p", {}, many ? "With " + formatCount(many) + (many === 1 ? " more site" : " more sites") +
			" since then: " : "Since then: ",
			element("b", { title: formatCount(v.grown) + " bytes" }, "+" + formatBytes(v.grown)), ", ",
				element("b", {}, formatRate(v.perSecond)), ", ", formatPercent(v.share, 1),
				" of all growth.",
			nameCaller(app, v), explainRss(app, v.from, v.last), ...growthDoubts(app, v)),
	];
}

export function drawHeadline(app) {
	const { model, report } = app, total = model.live[model.last].total, root = document.getElementById("verdict");
	if (!total.bytes && !total.blocks && (report.snapshots.length === 1 || !model.live[0].total.bytes))
		root.replaceChildren(...sayNothingLive());
	else if (model.verdict.top)
		root.replaceChildren(...sayGrowth(app));
	else if (report.snapshots.length === 1)
		root.replaceChildren(...sayLargest(app));
	else
		root.replaceChildren(...(report.snapshots.length < 5 ? sayDiff(app) : sayNothingGrows(app)));
}
