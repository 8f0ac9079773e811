// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The history: growing sites as areas, all that is traced, RSS, gaps, losses, cost. A click on a point chooses a
// snapshot, a drag compares two.

import { showTooltip } from "./dom.js";
import { fitName } from "./names.js";
import { formatBytes, formatCount, formatDuration, formatMeasure, formatPercent, splitBytes } from "./numbers.js";
import { clearCanvas, theme, tracePath } from "./theme.js";

const LEFT = 68, TOP = 22, FOOT = 40, LABELS = 262, COST = 9, LABEL_GAP = 15;
const BYTE_STEPS = [1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 80, 100, 200, 250, 400, 500, 800, 1024];
const COUNT_STEPS = [1, 2, 5, 10];
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800,
	604800];

// A round number of which `lines` or fewer fit below the maximum.
function niceStep(max, lines, unit) {
	const raw = Math.max(1, max / lines);
	const base = unit === "bytes" ? 2 ** (10 * Math.floor(Math.log2(raw) / 10)) : 10 ** Math.floor(Math.log10(raw));
	const step = (unit === "bytes" ? BYTE_STEPS : COUNT_STEPS).find(s => s * base >= raw);
	return (step || 1024) * base;
}

export class Timeline {
	constructor(canvas, app) {
		Object.assign(this, { canvas, app, hover: -1, drag: null, showRss: true });
		canvas.addEventListener("pointermove", e => this.onMove(e));
		canvas.addEventListener("pointerdown", e => this.onDown(e));
		canvas.addEventListener("pointerup", () => this.onUp());
		canvas.addEventListener("pointercancel", () => this.drag = null);
		canvas.addEventListener("pointerleave", () => this.onLeave());
	}

	// ---- scales

	setScale(width, height) {
		const { model, state } = this.app, s = this.app.report.snapshots;
		this.unit = state.unit;
		this.write = formatMeasure(this.unit);
		this.hasRss = this.unit === "bytes" && state.what === "live" && s.some(x => x.rss);
		this.totals = model.columns.map(c => c.total[this.unit]);
		this.all = (state.what === "live" ? model.live : model.columns).map(c => c.total[this.unit]);
		this.right = width - LABELS;
		this.bottom = height - FOOT;
		const t0 = model.times ? model.start : 0, t1 = model.times ? s[model.last].wall_ms : model.last;
		this.x = ms => LEFT + (ms - t0) / (t1 - t0 || 1) * (this.right - LEFT);
		this.xs = s.map((snapshot, i) => this.x(model.times ? snapshot.wall_ms : i));
		this.range = [t0, t1];
		const rss = this.hasRss && this.showRss ? Math.max(...s.map(x => x.rss?.total || 0)) : 0;
		const rows = model.isFiltered && !this.showAll() ? this.totals : this.all;
		this.max = Math.max(1, rss, ...rows) * 1.06;
	}

	// Under a filter the whole is drawn only as long as it does not flatten what is left.
	showAll() { return Math.max(...this.all) < 8 * Math.max(1, ...this.totals); }

	y(value) { return this.bottom - value / this.max * (this.bottom - TOP); }

	// ---- drawing

	draw() {
		const started = performance.now(), { c, width, height } = clearCanvas(this.canvas);
		this.setScale(width, height);
		c.font = "11px " + theme.sans;
		c.textBaseline = "middle";
		this.drawSelectionArea(c);
		this.drawGaps(c);
		this.drawValueAxis(c);
		this.drawTimeAxis(c);
		this.drawGapNames(c);
		this.drawAreas(c);
		this.drawRss(c);
		this.drawPoints(c);
		this.drawCost(c);
		this.drawSelectionEnds(c);
		this.drawLabels(c);
		this.drawHover(c);
		this.app.measured("timeline", performance.now() - started);
	}

	drawValueAxis(c) {
		c.textAlign = "right";
		c.lineWidth = 1;
		const step = niceStep(this.max, 4, this.unit);
		for (let v = 0; v <= this.max; v += step) {
			const y = Math.round(this.y(v)) + 0.5;
			c.strokeStyle = v ? theme.line : theme.line2;
			tracePath(c, [[LEFT, y], [this.right, y]]);
			c.stroke();
			c.fillStyle = theme.ink3;
			c.fillText(this.axisText(v), LEFT - 8, y);
		}
	}

	axisText(v) {
		if (!v || this.unit !== "bytes")
			return formatCount(v);
		const [n, u] = splitBytes(v);
		return n.replace(/\.0+$|(\.\d*?)0+$/, "$1") + " " + u;
	}

	drawTimeAxis(c) {
		const { model } = this.app, [t0, t1] = this.range;
		if (!model.times)
			return this.drawNames(c);
		const span = (t1 - t0) / 1000, room = (this.right - LEFT) / (model.isLong ? 110 : 90);
		const seconds = TIME_STEPS.find(t => span / t <= room) || 604800;
		c.textAlign = "center";
		for (let t = Math.ceil(t0 / 1000 / seconds) * seconds; t * 1000 <= t1; t += seconds) {
			const x = Math.round(this.x(t * 1000)) + 0.5;
			c.strokeStyle = theme.line;
			tracePath(c, [[x, this.bottom], [x, this.bottom + 4]]);
			c.stroke();
			c.fillStyle = theme.ink3;
			if (x > LEFT + 14 && x < this.right - 14)
				c.fillText(model.stamp(t * 1000, seconds < 60), x, this.bottom + 31);
		}
	}

	// Snapshots that are no moments have their names below.
	drawNames(c) {
		c.fillStyle = theme.ink3;
		this.xs.forEach((x, i) => {
			c.textAlign = i === 0 ? "left" : i === this.xs.length - 1 ? "right" : "center";
			c.fillText(this.app.model.momentOf(i), x, this.bottom + 31);
		});
	}

	drawAreas(c) {
		const { xs } = this, floor = new Float64Array(xs.length), line = () =>
			Array.from(floor, (v, i) => [xs[i], this.y(v)]);
		const layer = (values, fill) => {
			const low = line().reverse();
			values.forEach((v, i) => floor[i] += v);
			const top = line();
			tracePath(c, [...top, ...low]);
			c.fillStyle = fill;
			c.fill();
			tracePath(c, top);
			c.strokeStyle = theme.panel;
			c.lineWidth = 1;
			c.stroke();
		};
		this.bands = [];
		this.app.model.tops.forEach((site, i) => {
			const from = floor[xs.length - 1];
			layer(site[this.unit], theme.tops[i]);
			this.bands.push({ site, i, from, to: floor[xs.length - 1] });
		});
		layer(this.totals.map((v, i) => Math.max(0, v - floor[i])), theme.other);
		this.drawLine(c, this.totals, theme.ink3, 1);
		if (this.app.model.isFiltered && this.showAll()) {
			c.setLineDash([4, 3]);
			this.drawLine(c, this.all, theme.ink3, 1);
			c.setLineDash([]);
		}
	}

	drawLine(c, values, colour, width) {
		tracePath(c, Array.from(values, (v, i) => [this.xs[i], this.y(v)]));
		c.strokeStyle = colour;
		c.lineWidth = width;
		c.stroke();
	}

	drawRss(c) {
		if (!this.hasRss || !this.showRss)
			return;
		const points = this.app.report.snapshots.map((s, i) => s.rss &&
			[this.xs[i], this.y(s.rss.total)]).filter(Boolean);
		tracePath(c, points);
		c.strokeStyle = theme.rss;
		c.lineWidth = 1.6;
		c.stroke();
	}

	gapEnds() {
		return this.app.model.times ? this.app.model.gaps.map(g => [Math.max(LEFT, this.x(g.from)),
			Math.max(this.x(g.from) + 1, this.x(g.to))]) : [];
	}

	drawGaps(c) {
		for (const [x0, x1] of this.gapEnds()) {
			c.fillStyle = theme.hatch;
			c.fillRect(x0, TOP, x1 - x0, this.bottom - TOP);
			c.fillStyle = theme.grow;
			c.fillRect(x0, TOP, x1 - x0, 2);
		}
	}

	drawGapNames(c) {
		for (const [x0, x1] of this.gapEnds()) {
			if (x1 - x0 <= 76)
				continue;
			c.fillStyle = theme.hatch;
			c.fillRect((x0 + x1) / 2 - 36, TOP + 3, 72, 14);
			c.fillStyle = theme.grow;
			c.textAlign = "center";
			c.fillText("not recorded", (x0 + x1) / 2, TOP + 10);
		}
	}

	// Below the axis: a point for each snapshot, a tick where something was lost since the one before.
	drawPoints(c) {
		const s = this.app.report.snapshots, { a, b } = this.app.state,
			small = (this.right - LEFT) / s.length < 8 ? 1.25 : 2.5;
		s.forEach((snapshot, i) => {
			const x = this.xs[i], isChosen = i === a || i === b;
			c.beginPath();
			c.arc(x, this.bottom + 16, isChosen ? 4.5 : i === this.hover ? 4 : small, 0, 7);
			c.fillStyle = isChosen ? theme.accent : i === this.hover ? theme.ink : theme.ink3;
			c.fill();
			if (this.app.model.newLosses(i).length) {
				c.fillStyle = theme.grow;
				c.fillRect(x - 1, this.bottom + 21, 2, 4);
			}
		});
	}

	// Hanging from the axis: the share of the program's CPU time that recording took in each interval.
	drawCost(c) {
		let last = LEFT, any = false;
		this.xs.forEach((x, i) => {
			const share = this.app.model.costShare(i);
			if (share !== null) {
				c.fillStyle = theme.line2;
				c.fillRect(last, this.bottom + 1, Math.max(1, x - last - 1), Math.max(1, share * COST));
				any = true;
			}
			last = x;
		});
		if (any) {
			c.fillStyle = theme.ink3;
			c.textAlign = "right";
			c.fillText("our cost", LEFT - 8, this.bottom + 11);
		}
	}

	// The chosen snapshots, also while the pointer drags.
	chosen() { return this.drag?.moved ? this.drag : this.app.state; }

	drawSelectionArea(c) {
		const { a, b } = this.chosen(), xa = this.xs[a >= 0 ? a : b];
		c.fillStyle = theme.select;
		c.fillRect(Math.min(xa, this.xs[b]), TOP - 4, Math.abs(this.xs[b] - xa), this.bottom - TOP + 4);
	}

	drawSelectionEnds(c) {
		const { a, b } = this.chosen(), name = i => this.app.model.momentOf(i);
		const ends = a >= 0 ? [[this.xs[a], "A " + name(a)], [this.xs[b], "B " + name(b)]]
			: [[this.xs[b], name(b)]];
		c.strokeStyle = theme.accent;
		c.lineWidth = 1.25;
		c.font = "600 10.5px " + theme.sans;
		let after = LEFT;
		for (const [x, text] of ends) {
			tracePath(c, [[x, 16], [x, this.bottom + 4]]);
			c.stroke();
			const w = c.measureText(text).width + 10,
				left = Math.max(after, Math.min(this.right - w, x - w / 2));
			after = left + w + 2;
			c.fillStyle = theme.accent;
			c.beginPath();
			c.roundRect(left, 1, w, 15, 3);
			c.fill();
			c.fillStyle = theme.panel;
			c.textAlign = "left";
			c.fillText(text, left + 5, 9);
		}
		c.font = "11px " + theme.sans;
	}

	// ---- names at the end of what they name

	labelRows() {
		const { model, report, state } = this.app, last = model.last, rows = [],
			rss = report.snapshots[last].rss;
		for (const { site, i, from, to } of this.bands)
			rows.push({ y: (this.y(from) + this.y(to)) / 2, colour: theme.tops[i], text: site.tag,
				value: to - from, isStrong: true });
		const used = this.bands.length ? this.bands[this.bands.length - 1].to : 0, whole = this.totals[last];
		const noun = state.what === "live" ? model.isFiltered ? "matching" : "traced" : state.what;
		if (whole > used || !this.bands.length)
			rows.push({ y: (this.y(used) + this.y(whole)) / 2, colour: theme.other, text: this.bands.length
				? "all other " + noun : noun, value: Math.max(0, whole - used) });
		if (model.isFiltered && this.showAll())
			rows.push({ y: this.y(this.all[last]), colour: theme.ink3, text: "all traced (dashed)",
				value: this.all[last] });
		if (this.hasRss && rss)
			rows.push({ y: this.showRss ? this.y(rss.total) : TOP - 6, colour: theme.rss, text: this.showRss
				? "RSS" : "RSS, off the scale (click)", value: rss.total, isRss: true });
		return rows.sort((p, q) => q.y - p.y);
	}

	// Pushes names apart where they would touch.
	spreadLabels(rows) {
		let floor = this.bottom + 10;
		for (const row of rows) {
			row.at = Math.min(row.y, floor);
			floor = row.at - LABEL_GAP;
		}
		let roof = TOP - 10;
		for (const row of rows.slice().reverse()) {
			row.at = Math.max(row.at, roof);
			roof = row.at + LABEL_GAP;
		}
	}

	drawLabels(c) {
		const rows = this.labelRows();
		this.spreadLabels(rows);
		this.rssAt = rows.find(r => r.isRss)?.at ?? -99;
		for (const row of rows) {
			c.strokeStyle = theme.line2;
			c.lineWidth = 1;
			tracePath(c, [[this.right + 2, row.y], [this.right + 8, row.y], [this.right + 16, row.at],
				[this.right + 20, row.at]]);
			c.stroke();
			c.fillStyle = row.colour;
			c.fillRect(this.right + 22, row.at - 4, 8, 8);
			this.drawLabel(c, row);
		}
	}

	drawLabel(c, row) {
		const right = this.right + LABELS - 16, left = this.right + 36, value = this.write(row.value);
		c.font = "11px " + theme.sans;
		c.textAlign = "right";
		c.fillStyle = theme.ink2;
		c.fillText(value, right, row.at);
		const room = right - c.measureText(value).width - 12 - left;
		c.font = (row.isStrong ? "600 " : "") + "11px " + theme.sans;
		c.textAlign = "left";
		c.fillStyle = row.isStrong ? theme.ink : theme.ink2;
		let text = row.text;
		for (let chars = text.length; chars > 3 && c.measureText(text).width > room;)
			text = fitName(row.text, --chars);
		c.fillText(text, left, row.at);
	}

	drawHover(c) {
		if (this.hover < 0)
			return;
		c.strokeStyle = theme.ink3;
		c.lineWidth = 1;
		c.setLineDash([3, 3]);
		tracePath(c, [[this.xs[this.hover], TOP - 4], [this.xs[this.hover], this.bottom]]);
		c.stroke();
		c.setLineDash([]);
	}

	// ---- the pointer

	tooltipRows(i) {
		const { model, report, state } = this.app, s = report.snapshots[i],
			from = i ? report.snapshots[i - 1].wall_ms : model.start;
		const rows = [[model.momentOf(i) + model.zone, "snapshot " + (i + 1) + " of " +
			report.snapshots.length]];
		if (s.rss)
			rows.push(["RSS", formatBytes(s.rss.total), theme.rss]);
		rows.push([state.what === "live" ? model.isFiltered ? "matching" : "traced" : state.what,
			this.write(this.totals[i]), theme.other]);
		model.tops.forEach((site, k) => rows.push([site.tag, this.write(site[this.unit][i]), theme.tops[k]]));
		const cost = model.costShare(i);
		if (cost !== null)
			rows.push(["recording, share of CPU", formatPercent(cost, 1)]);
		if (s.trigger && s.trigger !== "interval")
			rows.push(["taken because of", s.trigger]);
		for (const [name, n] of model.newLosses(i))
			rows.push(["lost: " + name.replace(/_/g, " "), formatCount(n)]);
		const paused = model.gaps.reduce((sum, g) => sum +
			Math.max(0, Math.min(g.to, s.wall_ms) - Math.max(g.from, from)), 0);
		if (paused > 0)
			rows.push(["not recorded before it", formatDuration(paused)]);
		return rows.slice(0, 16);
	}

	nearest(e) {
		const x = e.clientX - this.canvas.getBoundingClientRect().left;
		if (x < LEFT - 20 || x > this.right + 12)
			return -1;
		return this.xs.reduce((best, v, i) => Math.abs(v - x) < Math.abs(this.xs[best] - x) ? i : best, 0);
	}

	isOverRss(e) {
		const bounds = this.canvas.getBoundingClientRect();
		return e.clientX - bounds.left > this.right && Math.abs(e.clientY - bounds.top - this.rssAt) < 9;
	}

	onDown(e) {
		const i = this.nearest(e);
		if (i >= 0) {
			this.canvas.setPointerCapture(e.pointerId);
			this.drag = { a: i, b: i, start: i, moved: false };
		} else if (this.isOverRss(e)) {
			this.showRss = !this.showRss;
			this.draw();
		}
	}

	onMove(e) {
		const i = this.hover = this.nearest(e);
		if (this.drag && i >= 0) {
			this.drag.moved ||= i !== this.drag.start;
			[this.drag.a, this.drag.b] = [Math.min(i, this.drag.start), Math.max(i, this.drag.start)];
		}
		this.canvas.style.cursor = i >= 0 ? "crosshair" : this.isOverRss(e) ? "pointer" : "default";
		showTooltip(i < 0 ? null : this.tooltipRows(i), e);
		this.draw();
	}

	onUp() {
		const drag = this.drag;
		this.drag = null;
		if (drag)
			this.app.set(drag.moved && drag.a < drag.b ? { a: drag.a, b: drag.b }
				: { a: -1, b: drag.start });
	}

	onLeave() {
		this.hover = -1;
		showTooltip(null);
		this.draw();
	}
}
