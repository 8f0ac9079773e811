// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The selection: what it holds, its tracebacks, and source lines where they were readable.

import { copyText, element, swatch } from "./dom.js";
import { KIND } from "./report.js";
import { visible } from "./names.js";
import { formatBytes, formatCount, formatExact, formatInterval, formatLeakRate, formatMeasure, formatPercent,
	formatSigned } from "./numbers.js";
import { theme } from "./theme.js";

const MOST_PATHS = 20000; // of a selection, sorted by weight

export class Detail {
	constructor(root, app) {
		Object.assign(this, { root, app, at: 0, opened: new Set(), tracebacks: null });
	}

	// what: { title, frame, tracebacks, columns, colour, site }
	show(what) {
		Object.assign(this, { site: null, ...what, at: 0 });
		this.opened.clear();
		const { a, b, unit, measure } = this.app.state, now = this.columns[b][unit], before = a >= 0
			? this.columns[a][unit] : null;
		this.weigh = t => measure === "grown" ? Math.max(0, now[t] - before[t]) : measure === "shrunk"
			? Math.max(0, before[t] - now[t]) : now[t];
		const heavy = what.tracebacks.filter(t => this.weigh(t) > 0), others = heavy.length ? heavy
			: what.tracebacks.filter(t => now[t] || before?.[t]);
		this.tracebacks = others.sort((p, q) => this.weigh(q) - this.weigh(p)).slice(0, MOST_PATHS);
		this.whole = this.tracebacks.reduce((sum, t) => sum + this.weigh(t), 0);
		this.sum = this.totals(what.tracebacks);
		this.draw();
	}

	totals(tracebacks) {
		const { a, b } = this.app.state, add = (i, unit) => i < 0 ? 0
			: Math.round(tracebacks.reduce((sum, t) => sum + this.columns[i][unit][t], 0));
		return { bytes: add(b, "bytes"), blocks: add(b, "blocks"), bytesBefore: add(a, "bytes"),
			blocksBefore: add(a, "blocks") };
	}

	empty(text) {
		this.tracebacks = null;
		this.root.replaceChildren(element("div", { class: "none" }, text));
	}

	// ---- drawing

	draw() {
		if (!this.sum.bytes && !this.sum.blocks && !this.sum.bytesBefore && !this.sum.blocksBefore)
			return this.empty("Nothing of this is live in the chosen snapshots.");
		const facet = this.site?.facet;
		this.root.replaceChildren(
			element("div", { class: "dhead" }, swatch(this.colour || theme.box2),
				element("code", { class: "dname", title: this.title }, this.title),
				facet && element("button",
					{ class: "ghost", onclick: () => this.app.enterSite(this.site),
					title: "Show only these blocks (Enter)" }, "Only these"),
				element("button", { class: "ghost", onclick: () => this.copy(),
					title: "Copy as text (y)" }, "Copy")),
			element("div", { class: "facts" }, ...this.facts().map(([name, value, cls, title]) =>
				element("div", { class: "fact", title }, element("span", {}, name),
				element("b", { class: cls || "" }, value)))),
			this.site?.leak && this.site.leak.reason ? element("p", { class: "reason" },
				visible(this.site.leak.reason)) : "",
			this.pathBar(), this.frameList());
	}

	// Rows of [name, value, class, title].
	facts() {
		const { sum, site, app } = this, { a, b, unit, what } = app.state,
			interval = app.intervalOf(this, "held");
		const size = what === "live" ? "Size" : what === "allocated" ? "Allocated" : "Temporary";
		const rows = [[size, formatBytes(sum.bytes), "", formatExact(sum.bytes, "bytes")]];
		if (interval && unit === "bytes")
			rows.push(["95 % interval", formatInterval(interval, unit)]);
		if (a >= 0) {
			rows.push(...this.changeFacts());
			rows.push(["Blocks", formatCount(sum.blocks) + " (" +
				formatSigned(sum.blocks - sum.blocksBefore, formatCount) + ")"]);
		} else {
			rows.push(["Blocks", formatCount(sum.blocks)]);
		}
		rows.push(["Average", sum.blocks ? formatBytes(sum.bytes / sum.blocks) : "–"]);
		if (site?.all)
			rows.push(["With callees", formatBytes(site.all.bytes[b]), "",
				formatExact(site.all.bytes[b], "bytes")]);
		if (site?.leak)
			rows.push(this.leakFact(site.leak));
		rows.push(["Share", formatPercent(sum.bytes, app.model.columns[b].total.bytes)]);
		return rows;
	}

	leakFact(leak) {
		const { word, hasRate } = leak, since = this.app.model.sinceText(leak.since),
			rate = formatLeakRate(leak.perSecond) + (leak.since.isAlways ? ", " : " of late, ") + since;
		return [word, hasRate ? rate : "", hasRate ? "up" : "", visible(leak.reason)];
	}

	changeFacts() {
		const { sum, app } = this, { a, b, unit } = app.state, s = app.report.snapshots,
			delta = sum.bytes - sum.bytesBefore;
		const interval = app.intervalOf(this, "change"),
			rows = [["Change", delta ? formatSigned(delta, formatBytes) : "none", delta > 0 ? "up"
			: delta < 0 ? "down" : "", formatExact(delta, "bytes")]];
		if (interval && unit === "bytes")
			rows.push(["95 % interval", formatInterval(interval, unit, true)]);
		if (app.model.hasTime(a, b)) {
			const cut = app.model.cutText(a, b), seconds = (s[b].wall_ms - s[a].wall_ms) / 1000;
			rows.push(["Rate from A to B", delta ? formatSigned(delta / seconds, formatLeakRate) +
				(cut ? ", with gaps" : "") : "–", cut ? "doubt" : "", cut]);
		}
		return rows;
	}

	pathBar() {
		const nr = this.tracebacks.length, write = formatMeasure(this.app.state.unit),
			t = this.tracebacks[this.at];
		if (!nr)
			return element("div", { class: "pathbar" },
				element("span", { class: "dim" }, "No call path is left."));
		return element("div", { class: "pathbar" },
			element("span", {}, nr === 1 ? "One call path" : "Call path " + formatCount(this.at + 1) +
				" of " + formatCount(nr)),
			nr > 1 && element("span", { class: "dim" }, formatPercent(this.weigh(t), this.whole) +
				" of this, " + write(this.weigh(t))),
			nr > 1 && element("button", { class: "ghost", disabled: this.at === 0, onclick: () =>
				this.turn(-1), "aria-label": "Previous path (p)" }, "‹"),
			nr > 1 && element("button", { class: "ghost", disabled: this.at === nr - 1, onclick: () =>
				this.turn(1), "aria-label": "Next path (n)" }, "›"),
			element("span", { class: "dim end" }, "most recent call first"));
	}

	turn(by) {
		const to = this.at + by;
		if (!this.tracebacks || to < 0 || to >= this.tracebacks.length)
			return;
		this.at = to;
		this.opened.clear();
		this.draw();
	}

	// Runs of library frames are one line, unless opened.
	frameList() {
		const { report } = this.app, list = element("ol", { class: "frames" });
		if (!this.tracebacks.length)
			return list;
		const t = this.tracebacks[this.at], frames = report.traceback(t), passed = report.nrPassed(t);
		const isLibrary = i => i < passed || report.isLibrary(frames[i]) &&
			report.kind(frames[i]) < KIND.missing;
		for (let i = 0; i < frames.length;) {
			let end = i;
			while (end < frames.length && isLibrary(end))
				end++;
			if (end - i > 1 && !this.opened.has(i)) {
				list.append(this.foldedLine(i, end, frames));
				i = end;
			} else {
				for (const stop = Math.max(end, i + 1); i < stop; i++)
					list.append(this.frameLine(frames[i], i === passed, isLibrary(i)));
			}
		}
		if (!frames.length)
			list.append(element("li", { class: "lib" }, report.label(-1)));
		if (report.cut?.[t])
			list.append(element("li", { class: "lib cut" }, "older callers are missing"));
		return list;
	}

	foldedLine(from, end, frames) {
		return element("li", { class: "fold" },
			element("button", { onclick: () => { this.opened.add(from); this.draw(); } },
			"+ " + (end - from) + " library frames",
				element("span", {}, " " + this.app.report.label(frames[from]))));
	}

	frameLine(frame, isSite, isLibrary) {
		const { report } = this.app, f = report.frames, isHere = this.frame >= 0 &&
			report.boxOf[frame] === report.boxOf[this.frame];
		const source = isLibrary ? undefined : report.source(frame);
		return element("li", { class: (isLibrary ? "lib" : "own") +
			(isHere || isSite && this.frame < 0 ? " here" : "") },
			element("div", { class: "fline" },
				element("code", { class: "fname", title: report.fullName(frame) }, report.label(frame)),
				report.kind(frame) === KIND.inlined && element("span", { class: "tag" }, "inlined"),
				element("code", { class: "fplace", title: report.longPlace(frame) },
					report.place(frame))),
			source !== undefined && element("code", { class: "src" },
				element("i", {}, String(f.line[frame])), visible(source.trim()) || " "));
	}

	// ---- copy

	text() {
		const { report } = this.app, { sum } = this, t = this.tracebacks[this.at];
		let head = this.title + "\n" + formatExact(sum.bytes, "bytes") + " in " +
			formatExact(sum.blocks, "blocks");
		if (this.app.state.a >= 0)
			head += " (" + formatSigned(sum.bytes - sum.bytesBefore, n => formatExact(n, "bytes")) + ", " +
				formatSigned(sum.blocks - sum.blocksBefore, n => formatExact(n, "blocks")) + ")";
		const lines = t === undefined ? [] : report.traceback(t).map(f => "    " + report.fullName(f) +
			(report.longPlace(f) && " at " + report.longPlace(f)));
		return [head, this.app.rangeText(), ...lines].join("\n") + "\n";
	}

	copy() {
		if (this.tracebacks)
			copyText(this.text());
	}
}
