// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The icicle: boxes as wide as what they hold. It draws only boxes that are wider than a pixel.

import { showTooltip } from "./dom.js";
import { fitName, visible } from "./names.js";
import { formatExact, formatMeasure, formatPercent, formatSigned } from "./numbers.js";
import { clearCanvas, inkOn, mix, shadeOfChange, theme } from "./theme.js";

const ROW = 20, THIN_ROW = 6, LEAST_WIDTH = 0.75, TEXT_WIDTH = 26;
const FONT = "11.5px ";
const DEEPEST_ROW = 3000; // a file may have tracebacks that are too deep for the stack of a script

export class Icicle {
	constructor(canvas, app) {
		Object.assign(this, { canvas, app, zoom: 0, focus: -1, hover: -1, matches: null, scroll: 0,
			tops: [0] });
		canvas.addEventListener("pointermove", e => this.onMove(e));
		canvas.addEventListener("pointerleave", () => this.onLeave());
		canvas.addEventListener("click", e => this.onClick(e));
		canvas.addEventListener("dblclick", e => this.zoomTo(this.boxAt(e)));
		canvas.addEventListener("wheel", e => this.onWheel(e), { passive: false });
	}

	setTree(tree) {
		if (tree === this.tree)
			return;
		const zoomed = this.tree && this.zoom ? this.tree.path(this.zoom).map(n => this.tree.box[n]) : [];
		this.tree = tree;
		this.zoom = tree.find(zoomed);
		this.focus = this.hover = -1;
		this.scroll = 0;
	}

	setMatches(hitBoxes) {
		this.hitBoxes = hitBoxes;
		this.matches = hitBoxes ? this.tree.match(hitBoxes) : null;
		return this.matches?.total || 0;
	}

	// ---- drawing

	draw() {
		const started = performance.now(), { c, width, height } = clearCanvas(this.canvas);
		this.c = c;
		this.height = height;
		this.boxes = [];
		c.font = FONT + theme.mono;
		c.textBaseline = "middle";
		c.textRendering = "optimizeSpeed";
		this.charWidth = c.measureText("mmmmmmmmmm").width / 10;
		const path = this.tree.path(this.zoom);
		this.layRows(path);
		this.placeBox(0, 0, width, 0, path.length > 0);
		path.forEach((id, i) => this.placeBox(id, 0, width, i + 1, i < path.length - 1));
		this.deepest = this.wideDepth = path.length;
		this.placeChildren(this.zoom, 0, width, path.length + 1);
		this.app.measured("icicle", performance.now() - started);
	}

	// Characters that fit into a width, in code of 12 px.
	charsIn(width) { return Math.max(8, Math.floor(width / (this.charWidth || 7) * 11.5 / 12)); }

	// A long chain of calls without a branch says little: all its rows but the last are thin.
	layRows(path) {
		const { tree } = this, whole = tree.width[this.zoom], thin = [];
		for (let row = 1; row < path.length; row++)
			thin.push(row);
		let row = path.length + 1, id = tree.children(this.zoom)[0];
		for (let next; id && tree.width[id] >= 0.9 * whole; id = next, row++) {
			next = tree.children(id)[0];
			if (next && tree.width[next] >= 0.9 * whole)
				thin.push(row);
		}
		this.nrThin = thin.length > 4 ? thin.length : 0;
		const isThin = new Set(this.nrThin ? thin : []);
		this.tops = [0];
		for (let r = 0; r <= row; r++)
			this.tops.push(this.tops[r] + (isThin.has(r) ? THIN_ROW : ROW));
	}

	rowTop(row) {
		const known = this.tops.length - 1;
		return row <= known ? this.tops[row] : this.tops[known] + (row - known) * ROW;
	}

	// The height that shows every row in which a name could stand.
	wantedHeight() { return this.rowTop(this.wideDepth + 1) + 12; }

	placeChildren(id, x, width, row) {
		const whole = this.tree.width[id];
		if (!whole || row > DEEPEST_ROW)
			return;
		for (const child of this.tree.children(id)) {
			const w = width * this.tree.width[child] / whole;
			if (w < LEAST_WIDTH)
				break;
			this.deepest = Math.max(this.deepest, row);
			if (w > 12)
				this.wideDepth = Math.max(this.wideDepth, row);
			this.placeBox(child, x, w, row, false);
			this.placeChildren(child, x, w, row + 1);
			x += w;
		}
	}

	placeBox(id, x, w, row, isAbove) {
		const y = this.rowTop(row) - this.scroll, h = this.rowTop(row + 1) - this.rowTop(row);
		if (y > this.height || y < -ROW)
			return;
		this.boxes.push({ id, x, w, y, h });
		this.paintBox(id, x, y, w, h, isAbove);
	}

	isLibrary(id) { return this.app.report.isLibrary(this.tree.frame[id]); }

	colourOf(id) {
		const { tree, app } = this;
		if (!id)
			return theme.panel;
		if (app.colouring() === "change") {
			const a = tree.before[id], b = tree.after[id];
			return shadeOfChange(Math.max(a, b) ? (b - a) / Math.max(a, b) : 0);
		}
		const tint = tree.tint[id], isLibrary = this.isLibrary(id);
		if (tint >= 0)
			return mix(theme.tops[tint], theme.panel, isLibrary ? 0.72 : theme.dark ? 0.3 : 0.22);
		return isLibrary ? theme.library : id % 2 ? theme.box : theme.box2;
	}

	paintBox(id, x, y, w, h, isAbove) {
		const c = this.c, fill = this.colourOf(id), gap = w > 3 ? 1 : 0, m = this.matches;
		c.globalAlpha = m && id && !m.inside[id] && !m.matched[id] ? 0.28 : isAbove ? 0.6 : 1;
		c.fillStyle = fill;
		c.fillRect(x, y, w - gap, h - 1);
		if (m && id && this.hitBoxes[this.tree.box[id]]) {
			c.globalAlpha = 1;
			c.fillStyle = theme.hit;
			c.fillRect(x, y + h - 4, w - gap, 3);
		}
		if (w > TEXT_WIDTH && h === ROW)
			this.paintText(id, x, y, w, fill);
		c.globalAlpha = 1;
		if (id === this.focus || id === this.hover) {
			c.strokeStyle = id === this.focus ? theme.accent : theme.ink;
			c.lineWidth = id === this.focus ? 2 : 1;
			c.strokeRect(x + 1, y + 1, Math.max(1, w - gap - 2), h - 3);
		}
	}

	paintText(id, x, y, w, fill) {
		const c = this.c, room = Math.floor((w - 10) / this.charWidth), text = this.textIn(id, room);
		if (!text)
			return;
		c.fillStyle = id ? inkOn(fill) : theme.ink2;
		c.textAlign = "left";
		if (id && this.isLibrary(id))
			c.globalAlpha *= 0.72;
		c.fillText(text, x + 5, y + ROW / 2);
		const value = this.valueText(id);
		if (room - text.length > value.length + 3) {
			c.globalAlpha *= 0.75;
			c.textAlign = "right";
			c.fillText(value, x + w - 6, y + ROW / 2);
		}
	}

	textIn(id, room) {
		const name = this.nameOf(id);
		if (!id)
			return name.slice(0, room);
		return this.isLine(id) ? this.lineTextIn(id, name, room) : fitName(name, room);
	}

	nameOf(id) {
		const { report } = this.app, frame = this.tree.frame[id];
		if (!id)
			return this.app.rootName() +
				(this.nrThin ? "; " + this.nrThin + " calls without a branch are thin" : "");
		if (!this.isLine(id))
			return report.label(frame);
		const source = report.source(frame);
		return report.place(frame) + (source ? "  " + visible(source.trim()) : "");
	}

	// The file's name gives way before the line's number.
	lineTextIn(id, name, room) {
		const frame = this.tree.frame[id], number = ":" + this.app.report.frames.line[frame];
		if (name.length <= room)
			return name;
		if (room > this.app.report.place(frame).length)
			return name.slice(0, room - 1) + "…";
		return number.length <= room ? number : "";
	}

	isLine(id) { return this.tree.box[id] >= this.app.report.nrFunctionBoxes; }

	valueText(id) {
		const { unit, measure, what } = this.app.state, write = formatMeasure(unit), w = this.tree.width[id];
		if (measure === "grown")
			return what === "live" ? formatSigned(w, write) : write(w);
		return measure === "shrunk" ? formatSigned(-w, write) : write(w);
	}

	// ---- the pointer

	boxAt(e) {
		const bounds = this.canvas.getBoundingClientRect(), x = e.clientX - bounds.left,
			y = e.clientY - bounds.top;
		return this.boxes?.find(b => y >= b.y && y < b.y + b.h && x >= b.x && x < b.x + b.w)?.id ?? -1;
	}

	tooltipRows(id) {
		const { tree, app } = this, { unit } = app.state, write = formatMeasure(unit), frame = tree.frame[id];
		const rows = [[app.report.fullName(frame), null], [app.report.longPlace(frame), null]];
		if (app.state.a >= 0) {
			rows.push(["A → B", write(tree.before[id]) + " → " + write(tree.after[id])]);
			rows.push(["change", formatSigned(tree.after[id] - tree.before[id], write)]);
		}
		rows.push([app.measureName(), this.valueText(id) + " · " + formatPercent(tree.width[id],
			tree.width[0])]);
		rows.push(["exactly", formatExact(tree.width[id], unit)]);
		if (app.report.isLibrary(frame))
			rows.push(["library frame", ""]);
		return rows;
	}

	onMove(e) {
		const id = this.boxAt(e);
		if (id !== this.hover) {
			this.hover = id;
			this.canvas.style.cursor = id >= 0 ? "pointer" : "default";
			this.draw();
		}
		showTooltip(id > 0 ? this.tooltipRows(id) : null, e);
	}

	onLeave() {
		this.hover = -1;
		showTooltip(null);
		this.draw();
	}

	// A click selects; a click on the selection, the root or a box above the zoom zooms.
	onClick(e) {
		const id = this.boxAt(e);
		if (id < 0)
			return;
		if (id === 0 || id === this.focus || id !== this.zoom && this.tree.path(this.zoom).includes(id))
			this.zoomTo(id);
		else
			this.select(id);
	}

	onWheel(e) {
		const most = Math.max(0, this.rowTop(this.deepest + 1) - this.height);
		const next = Math.max(0, Math.min(most, this.scroll + e.deltaY));
		if (next === this.scroll)
			return;
		e.preventDefault();
		this.scroll = next;
		this.draw();
	}

	// ---- selection

	select(id) {
		this.focus = id;
		this.reveal(id);
		this.app.pickBox(id);
		this.draw();
	}

	zoomTo(id) {
		if (id < 0)
			return;
		this.zoom = id;
		this.scroll = 0;
		this.draw();
		this.app.zoomed();
	}

	reveal(id) {
		const top = this.rowTop(this.tree.path(id).length);
		if (top - this.scroll > this.height - ROW)
			this.scroll = top - this.height + 2 * ROW;
		else if (top < this.scroll)
			this.scroll = top;
	}

	// Arrows go to the parent, the widest child and the siblings. Returns whether the key did something.
	onKey(name) {
		const { tree } = this, at = this.focus > 0 ? this.focus : this.zoom;
		const siblings = at > 0 ? tree.children(tree.parent[at]) : [], i = siblings.indexOf(at);
		const to = {
			ArrowDown: () => tree.children(Math.max(0, at))[0],
			ArrowUp: () => tree.parent[at],
			ArrowLeft: () => siblings[i - 1],
			ArrowRight: () => siblings[i + 1],
		}[name]?.();
		if (to > 0)
			this.select(to);
		else if (name === "Enter" && at > 0)
			this.zoomTo(at);
		else if (name === "Backspace" && this.zoom)
			this.zoomTo(tree.parent[this.zoom]);
		else
			return false;
		return true;
	}
}
