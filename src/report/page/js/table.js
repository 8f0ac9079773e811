// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The table of sites. Only the rows in sight are in the document.

import { element, swatch } from "./dom.js";
import { fitName, visible } from "./names.js";
import { formatBytes, formatCount, formatExact, formatInterval, formatLeakRate, formatPercent,
	formatSigned, splitBytes } from "./numbers.js";
import { clearCanvas, mix, theme, tracePath } from "./theme.js";

const ROW = 36;

// A row has two lines, and so has a cell: what it is, and below what explains it. `sorts`: key, text, title.
const COLUMNS = [
	{ key: "name", width: "minmax(0,1fr)",
		sorts: [["name", "Site", "First frame of the program's own, seen from the allocation"]] },
	{ key: "spark", width: "64px", shown: v => v.hasHistory && !v.isCumulative, sorts: [], title: "History" },
	{ key: "delta", width: "96px", shown: v => v.isDiff, sorts: [["delta", "Change", "B − A"],
		["rate", "per min", "Change in a minute, from A to B"]] },
	{ key: "size", width: "122px", sorts: [["size", "Size", "Bytes in B"], ["count", "blocks", "Blocks in B"],
		["average", "avg", "Bytes a block"]] },
	{ key: "self", width: "76px", shown: v => v.isCumulative, sorts: [["self", "Self", "Without what it calls"]] },
	{ key: "share", width: "58px", shown: v => !v.isDiff && !v.isCumulative,
		sorts: [["share", "Share", "Of all in B"]] },
];

export class Table {
	constructor(root, app) {
		Object.assign(this, { root, app, rows: [], drawn: [] });
		this.head = element("div", { class: "thead", role: "row" });
		this.body = element("div", { class: "tbody", role: "presentation" });
		this.scroller = element("div", { class: "tscroll", tabindex: 0, role: "grid", "aria-label": "Sites" },
			this.body);
		root.append(this.head, this.scroller);
		this.scroller.addEventListener("scroll", () => this.paint());
	}

	view() {
		const { state, model } = this.app;
		return { isDiff: state.a >= 0, hasHistory: model.times && this.app.report.snapshots.length > 1,
			isCumulative: state.sum === "all" && !model.isFacet };
	}

	columns() {
		const view = this.view();
		return COLUMNS.filter(c => !c.shown || c.shown(view));
	}

	fill() {
		this.rows = this.app.model.rows(this.app.state);
		this.sort();
	}

	sort() {
		const { sort, desc } = this.app.state, way = desc ? -1 : 1;
		this.rows.sort((p, q) => way * (typeof p[sort] === "string" ? p[sort].localeCompare(q[sort])
			: p[sort] - q[sort]) || q.size - p.size);
		this.most = this.rows.reduce((most, r) => Math.max(most, Math.abs(r.delta)), 1);
		this.byId = new Map(this.rows.map((r, i) => [r.site.id, i]));
	}

	// ---- drawing

	draw() {
		const columns = this.columns();
		this.root.style.setProperty("--cols", columns.map(c => c.width).join(" "));
		this.head.replaceChildren(...columns.map(c => this.headCell(c)));
		this.body.style.height = this.rows.length * ROW + "px";
		this.scroller.setAttribute("aria-rowcount", this.rows.length);
		const fixed = columns.reduce((sum, c) => sum + (parseInt(c.width) || 0) + 8, 0);
		this.chars = this.app.icicle.charsIn(this.scroller.clientWidth - 48 - fixed);
		this.paint();
	}

	headCell(column) {
		const { sort, desc } = this.app.state, { isCumulative } = this.view();
		return element("div", { class: "hcell " + column.key }, column.title && element("span", { class: "th" },
			column.title), ...column.sorts.map(([key, title, tip]) => {
			const isOn = key === sort, text = key === "size" && isCumulative ? "Cumul." : title;
			return element("button", { class: "th" + (isOn ? " on" : ""), title: tip, "data-sort": key,
				"aria-pressed": String(isOn),
				onclick: () => this.app.sortBy(key) }, text + (isOn ? desc ? " ↓" : " ↑" : ""));
		}));
	}

	paint() {
		const { scrollTop, clientHeight } = this.scroller, from = Math.max(0, Math.floor(scrollTop / ROW) - 2);
		const to = Math.min(this.rows.length, from + Math.ceil(clientHeight / ROW) + 5);
		for (const row of this.drawn)
			row.remove();
		this.drawn = [];
		for (let i = from; i < to; i++) {
			const row = this.makeRow(i);
			this.drawn.push(row);
			this.body.append(row);
			const canvas = row.querySelector("canvas");
			if (canvas)
				this.drawHistory(canvas, this.rows[i].site);
		}
		this.body.querySelector(".none")?.remove();
		if (!this.rows.length)
			this.body.append(element("div", { class: "none" }, this.emptyText()));
	}

	emptyText() {
		if (this.app.state.q)
			return "No site matches.";
		return this.app.model.isFiltered ? "No block passes the filters."
			: "No recorded block is live in this snapshot.";
	}

	makeRow(i) {
		const r = this.rows[i], { app } = this, isOn = app.state.site === r.site.id;
		const row = element("div", { class: "tr" + (isOn ? " on" : ""), role: "row", "aria-rowindex": i + 1,
			"aria-selected": String(isOn), style: { top: i * ROW + "px" },
			onclick: () => app.pickSite(r.site), ondblclick: () => app.enterSite(r.site) });
		row.append(...this.columns().map(c => this.cell(c.key, r)));
		return row;
	}

	cell(key, r) {
		switch (key) {
		case "name": return this.nameCell(r.site);
		case "spark": return element("div", { class: "td spark" }, element("canvas", { class: "spark" }));
		case "share": return element("div", { class: "td num", role: "gridcell" }, formatPercent(r.share, 1));
		case "delta": return this.deltaCell(r);
		case "self": return this.numberCell(r.self, "bytes", null);
		default: return this.sizeCell(r);
		}
	}

	// A verdict that nothing leaks is shown only of a site that has much of the growth: of a heap that grew.
	verdictOf(site) {
		const { last, live } = this.app.model, growth = live[last].total.bytes - live[0].total.bytes;
		const hasMuch = growth > 0 && site.bytes[last] - site.bytes[0] > growth / 10;
		return site.leak && (site.leak.hasRate || hasMuch) ? site.leak : null;
	}

	nameCell(site) {
		const top = this.app.model.tops.indexOf(site), leak = this.verdictOf(site);
		return element("div", { class: "td name", role: "gridcell", title: site.full + "\n" + site.place },
			swatch(top >= 0 ? theme.tops[top] : ""),
			element("div", { class: "two" }, site.facet ? element("span", { class: "value" }, site.name)
				: this.nameParts(site.name),
				element("span", { class: "place" }, leak && element("b",
					{ class: "word " + leak.verdict, title: visible(leak.reason) }, leak.word),
				site.place === site.name ? "" : site.place)));
	}

	// The qualifier gives way first; the last word stays.
	nameParts(full) {
		const name = fitName(full, this.chars), cut = name.lastIndexOf("::") + (name.includes("::") ? 2 : 1);
		return element("span", { class: "fn" }, element("span", { class: "ns" }, name.slice(0, cut)),
			element("strong", {}, name.slice(cut)));
	}

	numberCell(value, unit, below, cls = "", sign = "") {
		const [n, u] = unit === "bytes" ? splitBytes(value) : [formatCount(value), ""];
		return element("div", { class: "td num " + cls, role: "gridcell", title: formatExact(value, unit) },
			element("div", {}, sign + (value ? n : "0"), unit === "bytes" && element("span", { class: "u" },
			value ? u : "")),
			below !== null && element("div", { class: "sub" }, below));
	}

	sizeCell(r) {
		const { unit } = this.app.state, interval = this.app.intervalOf(r.site, "held");
		const explains = interval ? formatInterval(interval, unit) : unit === "bytes" ? r.count
			? formatCount(r.count) + " × " + formatBytes(r.average) : "" : formatBytes(r.size);
		return this.numberCell(unit === "bytes" ? r.size : r.count, unit, explains);
	}

	deltaCell(r) {
		const { unit } = this.app.state, delta = unit === "bytes" ? r.delta : r.countDelta;
		if (!delta)
			return element("div", { class: "td num zero", role: "gridcell" }, "no change");
		const interval = this.app.intervalOf(r.site, "change"), isSure = !interval || interval[0] > 0 ||
			interval[1] < 0;
		const cut = this.app.model.cutText(this.app.state.a, this.app.state.b);
		const rate = r.rate && unit === "bytes" ? (cut ? "! " : "") + formatSigned(r.rate, formatLeakRate) : "";
		const cell = this.numberCell(delta, unit, interval ? formatInterval(interval, unit, true) : rate,
			!isSure ? "unsure" : delta > 0 ? "up" : "down", delta > 0 ? "+" : "");
		if (!isSure)
			cell.title += "\nThe samples cannot show whether it changed";
		cell.title += cut && "\n" + cut;
		cell.append(element("i", { class: "rule",
			style: { width: Math.max(1, 100 * Math.abs(r.delta) / this.most) + "%" } }));
		return cell;
	}

	drawHistory(canvas, site) {
		const { c, width, height } = clearCanvas(canvas), { state, model } = this.app,
			values = site[state.unit], n = values.length, max = Math.max(...values) || 1;
		const t = model.times, x = i => 1 + (width - 2) * (t[i] - t[0]) / (t[n - 1] - t[0] || 1),
			y = v => height - 2 - (height - 4) * v / max;
		if (state.a >= 0) {
			c.fillStyle = theme.select;
			c.fillRect(x(state.a), 0, x(state.b) - x(state.a), height);
		}
		const top = model.tops.indexOf(site);
		c.strokeStyle = c.fillStyle = top >= 0 ? mix(theme.tops[top], theme.ink, 0.18) : theme.ink3;
		c.lineWidth = 1.5;
		c.lineJoin = "round";
		tracePath(c, values.map((v, i) => [x(i), y(v)]));
		c.stroke();
		c.lineTo(x(n - 1), height);
		c.lineTo(x(0), height);
		c.globalAlpha = 0.15;
		c.fill();
		c.globalAlpha = 1;
	}

	// ---- selection

	show(site) {
		const i = this.byId.get(site.id);
		if (i !== undefined) {
			const top = i * ROW, { scrollTop, clientHeight } = this.scroller;
			if (top < scrollTop || top + ROW > scrollTop + clientHeight)
				this.scroller.scrollTop = top - clientHeight / 2;
		}
		this.paint();
	}

	step(by) {
		const at = this.byId.get(this.app.state.site) ?? -1,
			to = Math.max(0, Math.min(this.rows.length - 1, at + by));
		if (this.rows[to])
			this.app.pickSite(this.rows[to].site);
	}

	// The rows as a text with tabs, for a spreadsheet or a ticket.
	text() {
		const isDiff = this.app.state.a >= 0,
			head = ["bytes", "blocks", ...(isDiff ? ["bytes_change", "blocks_change"] : []), "site",
			"place"];
		return [head, ...this.rows.map(r => [r.size, r.count, ...(isDiff ? [r.delta, r.countDelta] : []),
			r.site.full, r.site.place])].map(row => row.join("\t")).join("\n") + "\n";
	}
}
