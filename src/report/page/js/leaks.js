// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The verdicts of `allocsnap leaks`, as the data have them. The page judges nothing itself.

const WORDS = { leaks: "LEAKS", "may-leak": "MAY LEAK", grows: "grows", young: "young", settled: "settled",
	freed: "freed", gaps: "gaps", few: "few blocks" };

export const LEAST_RSS_GROWTH = 1 << 20;

const isLeak = verdict => verdict === "leaks" || verdict === "may-leak";

// A line that leaks, may leak or grows. order: its place among all; since: in milliseconds of the wall clock.
function readLine(line, order, timeOf) {
	return { order, verdict: line.verdict, word: WORDS[line.verdict], perSecond: line.bytes_per_s || 0,
		hasRate: isLeak(line.verdict) || line.verdict === "grows",
		least: line.least_bytes_per_s || 0, traceback: line.traceback, since: timeOf(line.since_ns),
		reason: line.reason, callers: line.callers || 1 };
}

const sureRate = line => line.verdict === "leaks" ? line.perSecond : 0;

// The verdict of a site, with the verdict of one more line.
function sumOf(leak, line) {
	if (!leak)
		return { ...line, sure: sureRate(line) };
	if (leak.verdict !== line.verdict && !(isLeak(leak.verdict) && isLeak(line.verdict)))
		return leak;
	const perSecond = leak.perSecond + line.perSecond, sure = leak.sure + sureRate(line),
		larger = 2 * sure >= perSecond ? "leaks" : "may-leak";
	const named = isLeak(line.verdict) && leak.verdict !== larger ? line : leak;
	return { ...named, order: leak.order, perSecond, sure };
}

// wall: the time of a snapshot's clock in milliseconds of the wall clock.
export class Leaks {
	constructor(report, wall) {
		const json = report.leaks || {}, begin = json.begin_ns || 0, span = json.observed_ns || 0;
		const timeOf = ns => ({ ms: wall(begin + ns), isAlways: ns < span / 10 });
		let order = 0;
		this.isAsked = Boolean(report.leaks);
		this.unjudged = json.unjudged || "";
		this.untraced = json.untraced || 0;
		this.nothing = json.nothing || "";
		this.growth = json.growth || {};
		this.numbers = json.lines || {};
		this.more = json.more_lines || 0;
		this.leftOut = json.left_out || 0;
		this.hints = json.hints || [];
		this.rows = (json.rows || []).map(row => ({ verdict: row.verdict, perSecond: row.bytes_per_s || 0,
			least: row.least_bytes_per_s || 0, since: timeOf(row.since_ns), caller: row.caller ?? -1,
			lines: row.lines.filter(l => l.traceback < report.nrTracebacks).map(l =>
				readLine(l, order++, timeOf)) })).filter(row => row.lines.length);
		this.found = this.rows.filter(row => isLeak(row.verdict));
	}

	// Whether what leaks, or may, is a third of the growth of RSS or more; also if RSS has hardly grown.
	explains() {
		const { rss, time_ns: time } = this.growth;
		const perSecond = this.found.reduce((sum, row) => sum + row.perSecond, 0);
		return !(rss >= LEAST_RSS_GROWTH) || 3 * perSecond * time / 1e9 >= rss;
	}

	// Gives each site `leak`, or null. Rates of one verdict are added up, and rates of what leaks and what may:
	// then the larger part has the word and the reason. Other verdicts count only for a site without these.
	mark(report, groups, sites) {
		const byGroup = new Map(sites.map(site => [site.group, site]));
		for (const site of sites)
			site.leak = null;
		for (const line of this.rows.flatMap(row => row.lines)) {
			const site = byGroup.get(groups.of(report.siteFrame(line.traceback)));
			if (site)
				site.leak = sumOf(site.leak, line);
		}
	}
}

// The sites that leak or may leak, in the order of the verdicts.
export const leakingSites = sites => sites.filter(s => s.leak && isLeak(s.leak.verdict)).sort((a, b) =>
	a.leak.order - b.leak.order);
