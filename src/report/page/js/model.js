// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Everything that the views show, derived from report and state: columns, sites, rows of the table, colours, hits.

import { ColumnStore } from "./columns.js";
import { Facets } from "./facets.js";
import { Intervals } from "./intervals.js";
import { Leaks, leakingSites } from "./leaks.js";
import { textMatcher, visible } from "./names.js";
import { formatClock, formatDate, formatDuration, formatPercent } from "./numbers.js";
import { KIND } from "./report.js";
import { FrameGroups, callerSites, facetSites, groupSites, isFrameGroup, sumCumulative, sumSites } from "./sites.js";
import { Tree } from "./tree.js";

const MOST_TOPS = 6;

export class Model {
	constructor(report) {
		this.report = report;
		this.store = new ColumnStore(report);
		this.facets = new Facets(report);
		this.intervals = report.isSampled ? new Intervals(report) : null;
		this.trees = {};
		this.groups = {};
		this.live = this.store.columns("live", null, "");
		this.readTimes();
		const lines = this.frameSites("line");
		sumSites(lines, this.live);
		this.nrSites = lines.filter(s => s.bytes[this.last] || s.blocks[this.last]).length;
		this.leaks.mark(report, this.groupOf("line"), lines);
		this.headline = this.chooseHeadline(lines);
		const named = lines.filter(s => s.frame < 0 || report.kind(s.frame) !== KIND.smallSites);
		this.namedSites = named.length ? named : lines;
		const held = site => site.bytes[this.last];
		this.largest = this.namedSites.reduce((best, s) => !best || held(s) > held(best) ? s : best, null);
	}

	// Times in seconds; null if snapshots are the sides of a question and not moments.
	readTimes() {
		const { snapshots: s, process, gaps } = this.report, last = this.last = s.length - 1;
		this.hasClock = s.every(x => x.wall_ms !== undefined);
		if (!this.hasClock && s.every(x => x.monotonic_ns !== undefined))
			s.forEach(x => x.wall_ms = x.monotonic_ns / 1e6);
		// The sides of a question to a fleet are no moments, and have no rates.
		const isAscending = !this.report.isFleet && s.every((x, i) => x.wall_ms !== undefined &&
			(!i || x.wall_ms > s[i - 1].wall_ms));
		this.times = isAscending ? s.map(x => x.wall_ms / 1000) : null;
		const wall = ns => s[last].wall_ms + (ns - s[last].monotonic_ns) / 1e6,
			began = process.recording_start_monotonic_ns;
		this.start = s[0].wall_ms;
		if (s.length > 1 && began && !this.report.isFleet)
			this.start = Math.min(s[0].wall_ms, wall(began));
		this.gaps = this.report.isFleet ? [] : gaps.map(g => ({ from: wall(g.start_ns), to: wall(g.end_ns) }));
		this.leaks = new Leaks(this.report, wall);
		this.zone = this.hasClock && !this.report.isFleet ? " UTC" : "";
		this.isLong = s[last].wall_ms - this.start > 86400000;
	}

	// The report says this first: the row of verdicts with the fastest leak, and since which snapshot. With fewer
	// snapshots than a judgement needs, what holds or has changed comes first: births alone give the verdicts. The
	// same holds where all leaks are a small part of the growth.
	chooseHeadline(lines) {
		const row = this.last >= 3 && this.leaks.explains() && this.leaks.found[0], s = this.report.snapshots;
		const top = row && lines.find(site => site.leak?.order === row.lines[0].order);
		if (!top)
			return null;
		const after = s.findIndex(snapshot => snapshot.wall_ms > row.since.ms);
		return { row, top, from: Math.min(Math.max(0, (after < 0 ? s.length : after) - 1), this.last - 1) };
	}

	// The name of a snapshot on axes and buttons.
	momentOf(i) {
		const s = this.report.snapshots[i];
		if (s.wall_ms === undefined || this.report.isFleet)
			return visible(s.name || String(i + 1));
		return this.stamp(s.wall_ms);
	}

	// Without a clock, the time since the recording began.
	stamp(ms, seconds = !this.isLong) {
		if (!this.hasClock)
			return formatDuration(ms - this.start);
		return (this.isLong ? formatDate(ms).slice(5) + " " : "") + formatClock(ms, seconds);
	}

	sinceText(since) { return since.isAlways ? "all the time" : "since " + this.stamp(since.ms); }

	// ---- sites

	groupOf(by) { return this.groups[by] ||= new FrameGroups(this.report, by); }

	frameSites(by) { return (this.siteLists ||= {})[by] ||= groupSites(this.report, this.groupOf(by)); }

	// Everything that depends on what is measured, filtered or grouped.
	regroup(state) {
		const isLive = state.what === "live";
		this.selection = isLive ? this.facets.selection(state) : { keep: null, name: "" };
		this.isFiltered = Boolean(this.selection.keep);
		this.columns = this.store.columns(state.what, this.selection.keep, this.selection.name);
		this.isFacet = !isFrameGroup(state.group);
		if (this.isFacet) {
			this.sites = facetSites(this.report, this.facets.facet(state.group), this.selection.keep);
		} else {
			this.sites = this.frameSites(state.group);
			sumSites(this.sites, this.columns);
		}
		if (!this.isFacet)
			this.leaks.mark(this.report, this.groupOf(state.group), this.sites);
		this.chooseTops(state);
	}

	// The sites that have a colour: those that leak, or that grew most from A to B, then the largest at B.
	chooseTops(state) {
		const { sites, columns } = this, leaking = leakingSites(sites);
		const rise = s => state.a >= 0 ? s.bytes[state.b] - s.bytes[state.a] : 0;
		const large = sites.slice().sort((p, q) => Math.max(0, rise(q)) - Math.max(0, rise(p)) ||
			q.bytes[state.b] - p.bytes[state.b]);
		const wanted = sites.length && columns.length === 1 ? MOST_TOPS
			: Math.min(MOST_TOPS, Math.max(leaking.length, 4));
		this.tops = [...new Set([...leaking,
			...(leaking.length > 2 ? [] : large.filter(s => Math.max(...s.bytes) > 0))])].slice(0, wanted);
		this.tints = new Int8Array(this.report.nrTracebacks).fill(-1);
		if (!this.isFacet)
			this.tops.forEach((site, i) => site.tracebacks.forEach(t => this.tints[t] = i));
	}

	tree(state) {
		return this.trees[state.order + state.lib] ||= new Tree(this.report, state.order, state.lib === "fold");
	}

	// The columns behind a site, for all its tracebacks; for a value of a facet, only blocks with this value.
	columnsOf(site) {
		if (!site?.facet)
			return this.columns;
		return this.store.columns("live", this.keepOf(site), this.selection.name + " row " + site.facet.id +
			"=" + site.value);
	}

	// Which keys take part in a site's numbers; null for all.
	keepOf(site) {
		const { keep } = this.selection;
		if (!site?.facet)
			return keep;
		return Uint8Array.from(site.facet.ofKey, (v, key) => v === site.value && (!keep || keep[key]) ? 1 : 0);
	}

	// [low, high] of what tracebacks hold, or of their change from A to B; null if every block was recorded, or if
	// there are gaps.
	interval(kind, tracebacks, site, state) {
		const { a, b, unit } = state;
		if (!this.intervals || state.what !== "live" || kind === "change" && a < 0)
			return null;
		if (this.intervals.isOpen(b) || kind === "change" && this.intervals.isOpen(a))
			return null;
		const keep = this.keepOf(site);
		return kind === "held" ? this.intervals.held(tracebacks, b, unit, keep)
			: this.intervals.change(tracebacks, a, b, unit, keep, this.facets.bornBefore(a));
	}

	// ---- rows of the table

	rows(state) {
		const { a, b, q } = state, sites = state.sum === "all" && !this.isFacet ? this.cumulativeSites(state)
			: this.sites;
		const snapshots = this.report.snapshots, seconds = a >= 0 && this.hasTime(a, b)
			? (snapshots[b].wall_ms - snapshots[a].wall_ms) / 1000 : 0;
		const whole = this.columns[b].total.bytes;
		return sites.filter(site => !q || this.siteMatches(site)).map(site => {
			const all = site.all || site, size = all.bytes[b], count = all.blocks[b],
				delta = a >= 0 ? size - all.bytes[a] : 0;
			return { site, name: site.name, size, count, average: count ? size / count : 0, delta,
				rate: seconds ? delta / seconds : 0, share: whole ? size / whole : 0,
				countDelta: a >= 0 ? count - all.blocks[a] : 0, self: site.bytes[b] };
		}).filter(r => r.size || r.count || r.delta || r.countDelta);
	}

	hasTime(a, b) { return Boolean(this.times) &&
		this.report.snapshots[b].wall_ms > this.report.snapshots[a].wall_ms; }

	// Every frame with what it and its callees hold at A and B, in `all`. Library frames only if they are shown.
	cumulativeSites(state) {
		const groups = this.groupOf(state.group), known = this.callers ||= {};
		const callers = known[state.group] ||= callerSites(this.report, groups, this.sites);
		const shown = state.lib === "fold" ? callers.filter(s => !this.report.isLibrary(s.frame)) : callers;
		const list = [...this.sites, ...shown];
		const add = (i, unit) => sumCumulative(this.report, groups, this.columns[i][unit]);
		for (const site of list)
			site.all = { bytes: [], blocks: [] };
		for (const i of state.a >= 0 ? [state.a, state.b] : [state.b])
			for (const unit of ["bytes", "blocks"]) {
				const sums = add(i, unit);
				for (const site of list)
					site.all[unit][i] = Math.round(sums[site.group]);
			}
		return list;
	}

	forgetCumulative() {
		for (const site of this.sites)
			site.all = null;
	}

	// ---- search

	search(q) {
		this.hitBoxes = this.hitNodes = null;
		if (!q)
			return;
		const { report } = this, test = textMatcher(q), f = report.frames,
			known = new Int8Array(report.strings.length);
		const hit = i => i >= 0 && (known[i] ||= test(report.strings[i]) ? 1 : -1) > 0;
		this.hitBoxes = new Uint8Array(report.boxFrame.length);
		const places = new Uint8Array(report.nrFrames);
		for (let i = 0; i < report.nrFrames; i++) {
			places[i] = hit(f.file[i]) || hit(f.object[i]) && f.function[i] < 0 || test(report.place(i)) ||
				test(report.label(i)) ? 1 : 0;
			if (places[i] || hit(f.function[i]))
				this.hitBoxes[report.boxOf[i]] = 1;
		}
		for (const box of report.lineBoxes.values())
			this.hitBoxes[box] = places[report.boxFrame[box]];
		this.hitNodes = new Uint8Array(report.parent.length);
		for (let n = 1; n < this.hitNodes.length; n++)
			this.hitNodes[n] = this.hitNodes[report.parent[n]] |
				this.hitBoxes[report.boxOf[report.nodeFrame[n]]];
		this.textHit = test;
	}

	siteMatches(site) {
		if (site.facet)
			return this.textHit(site.name);
		if (site.isCaller)
			return this.hitBoxes[this.report.boxOf[site.frame]];
		return site.tracebacks.some(t => this.hitNodes[this.report.leaf[t]]);
	}

	// ---- recording

	// The share of the program's CPU time that recording took between a snapshot and the one before.
	costShare(i) {
		const s = this.report.snapshots, now = s[i].cost, then = i && !s[i].is_other_recording ? s[i - 1].cost
			: null;
		if (!now)
			return null;
		const cpu = now.cpu_ns - (then?.cpu_ns || 0), cost = now.cost_ns - (then?.cost_ns || 0);
		return cpu > 0 ? Math.max(0, Math.min(1, cost / cpu)) : null;
	}

	// The share of the time between two snapshots in which nothing was recorded.
	gapShare(a, b) {
		const from = this.report.snapshots[a].wall_ms, to = this.report.snapshots[b].wall_ms;
		return this.gaps.reduce((sum, g) => sum + Math.max(0, Math.min(g.to, to) - Math.max(g.from, from)),
			0) / (to - from || 1);
	}

	// Why a change from A to B may be larger or smaller than it was; "" if all of the time was recorded.
	cutText(a, b) {
		if (this.report.snapshots.slice(a + 1, b + 1).some(s => s.is_other_recording))
			return "One recording ended and another began in this time";
		const share = this.gapShare(a, b);
		return share > 0 ? "Nothing was recorded in " + formatPercent(share, 1) + " of this time: blocks that "
			+ "were allocated then are missing, blocks that were freed then are still counted" : "";
	}

	// Losses between a snapshot and the one before: [name, number].
	newLosses(i) {
		const s = this.report.snapshots, then = i && !s[i].is_other_recording ? s[i - 1].losses : {};
		return Object.entries(s[i].losses).map(([name, n]) => [name, n - (then[name] || 0)]).filter(([, n]) =>
			n > 0);
	}
}
