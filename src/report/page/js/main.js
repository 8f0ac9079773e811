// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The page: one state, drawn by the views. All that a link should bring back is in the fragment of the address.

import { Detail } from "./detail.js";
import { byId, copyText, element } from "./dom.js";
import { FilterMenu } from "./filtermenu.js";
import { drawHeader, drawHeadline, processText } from "./headline.js";
import { Icicle } from "./icicle.js";
import { listenToKeys } from "./keys.js";
import { Model } from "./model.js";
import { formatBytes, formatCount, formatMeasure, formatPercent, formatSigned } from "./numbers.js";
import { loadReport } from "./report.js";
import { CHOICES, firstState, readFragment, settleState, writeFragment } from "./state.js";
import { Table } from "./table.js";
import { keepTheme, preferredTheme, readTheme, shadeOfChange, theme } from "./theme.js";
import { Timeline } from "./timeline.js";
import { drawTrust, openFacts } from "./trust.js";

const COMPARING = ["grown", "shrunk", "change"]; // values of choices that need A

class App {
	constructor(report) {
		this.report = report;
		this.timings = {};
		this.model = new Model(report);
		this.first = firstState(this.model);
		this.state = readFragment(location.hash.slice(1), this.first, this.model, report);
		this.timeline = new Timeline(byId("timeline"), this);
		this.icicle = new Icicle(byId("icicle"), this);
		this.table = new Table(byId("table"), this);
		this.detail = new Detail(byId("detail"), this);
		this.filters = new FilterMenu(this);
		this.hasHistory = report.snapshots.length > 1 && Boolean(this.model.times);
		document.body.classList.toggle("single", !this.hasHistory);
		this.offerChoices();
		this.listen();
		drawHeader(this);
		this.showState();
	}

	// ---- drawing

	// After a new state, also from a link.
	showState() {
		byId("q").value = this.state.q;
		this.model.regroup(this.state);
		this.refill();
		this.restoreSelection();
		this.restoreZoom();
	}

	// After a change of what is counted, chosen or searched.
	refill() {
		const { model, state } = this, started = performance.now(), { a, b, unit, measure } = state;
		byId("group").value = state.group;
		byId("what").value = state.what;
		this.icicle.setTree(model.tree(state));
		this.icicle.tree.fill({ before: a >= 0 ? model.columns[a][unit] : null, after: model.columns[b][unit],
			measure, tints: model.tints, nrTints: model.isFacet ? 0 : model.tops.length });
		this.measured("fill", performance.now() - started);
		model.search(state.q);
		const found = this.icicle.setMatches(model.hitBoxes);
		byId("found").textContent = state.q ? formatMeasure(unit)(found) + " · " +
			formatPercent(found, this.icicle.tree.width[0]) : "";
		if (state.sum === "self")
			model.forgetCumulative();
		this.table.fill();
		this.draw();
		this.measured("refill", performance.now() - started);
	}

	draw() {
		drawHeadline(this);
		drawTrust(this);
		this.drawControls();
		this.filters.draw();
		if (this.hasHistory)
			this.timeline.draw();
		this.icicle.draw();
		this.fitIcicle();
		this.table.draw();
	}

	// The icicle is as high as it is deep, so that the tracebacks below have the rest.
	fitIcicle() {
		const key = [this.state.order, this.state.lib, this.state.measure, innerHeight, innerWidth].join();
		if (this.fitted === key)
			return;
		this.fitted = key;
		document.querySelector(".right").style.setProperty("--icicle", this.icicle.wantedHeight() + "px");
		this.icicle.draw();
	}

	drawControls() {
		const { state, model } = this, isDiff = state.a >= 0;
		for (const button of document.querySelectorAll("[data-set]")) {
			const [name, value] = button.dataset.set.split("="), now = name === "colour" ? this.colouring()
				: state[name];
			button.setAttribute("aria-pressed", String(now === value));
			button.disabled = !isDiff && COMPARING.includes(value) || name === "sum" && value === "all" &&
				model.isFacet;
		}
		byId("range").replaceChildren(...this.rangeParts());
		byId("legend").replaceChildren(...(this.colouring() === "site" ? [] : [element("span", {}, "gone"),
			...[-1, -0.6, -0.2, 0, 0.2, 0.6, 1].map(change =>
				element("i", { style: { background: shadeOfChange(change) } })),
				element("span", {}, "new")]));
		const nr = this.table.rows.length, noun = model.isFacet ? "values" : state.sum === "all" ? "frames"
			: nr === 1 ? "site" : "sites";
		byId("sitecount").textContent = formatCount(nr) + " " + noun;
	}

	rangeParts() {
		const { a, b } = this.state, { model } = this, now = model.columns[b].total;
		if (a < 0)
			return [element("b", {}, (this.report.isFleet ? "" : "Snapshot ") + model.momentOf(b)),
				element("span", { class: "dim" }, formatBytes(now.bytes) + " in " +
				formatCount(now.blocks) + " blocks")];
		const then = model.columns[a].total, change = now.bytes - then.bytes;
		return [element("b", {}, model.momentOf(a)), " → ", element("b", {}, model.momentOf(b)),
			element("span", { class: "dim wideonly" }, formatBytes(then.bytes) + " → " +
			formatBytes(now.bytes) + ","),
			element("span", { class: change >= 0 ? "up" : "down", title: formatSigned(change, formatCount) +
				" bytes" }, formatSigned(change, formatBytes))];
	}

	// Names the process and the moments, for copied text.
	rangeText() {
		const { a, b } = this.state, { report, model } = this, p = report.process;
		const who = report.isFleet ? report.processes.length + " processes" : processText(p);
		return who + ", " + (a >= 0 ? model.momentOf(a) + " to " : "") + model.momentOf(b) +
			model.zone + (model.isFiltered ? ", filtered: " + model.selection.name
			: "");
	}

	colouring() { return this.state.a < 0 ? "site" : this.state.colour ||
		(this.state.measure === "grown" || this.state.what !== "live" ? "site" : "change"); }
	measureName() { return { held: this.state.what, grown: this.state.what === "live" ? "growth" : this.state.what +
		" from A to B", shrunk: "shrinkage" }[this.state.measure]; }
	rootName() { return "all " + this.measureName() + (this.state.order === "leaf" ? ", by site" : ", by caller") +
		(this.model.isFiltered ? ", filtered" : ""); }
	measured(name, ms) { (this.timings[name] ||= []).push(ms); }

	// [low, high], or null where nothing was left to chance or gaps hide how far off it is. thing: a site, or what
	// the detail pane shows.
	intervalOf(thing, kind) {
		if (!this.model.intervals || this.state.sum === "all")
			return null;
		const site = thing.facet ? thing : thing.site || null;
		return this.model.interval(kind, thing.tracebacks, site, this.state);
	}

	// ---- what the reader does

	set(change) {
		const old = this.state, next = { ...old, ...change };
		if (next.a >= 0 && old.a < 0)
			Object.assign(next, { measure: change.measure || "grown", sort: "delta", desc: true });
		if (next.a < 0 && old.a >= 0)
			Object.assign(next, { measure: "held", sort: "size", desc: true });
		if (next.group !== old.group)
			next.site = "";
		this.state = settleState(next, this.model, this.report);
		const regroups = ["group", "what", "born", "host", "process", "thread", "domain", "size", "age"];
		if (regroups.some(name => next[name] !== old[name]) || next.a !== old.a || next.b !== old.b)
			this.model.regroup(this.state);
		this.refill();
		this.restoreSelection();
		this.writeLink();
	}

	cycle(name) {
		const values = CHOICES[name].filter(v => this.state.a >= 0 || !COMPARING.includes(v)).filter(v =>
			name !== "what" || this.report.hasChurn || v === "live");
		const now = name === "colour" ? this.colouring() : this.state[name];
		this.set({ [name]: values[(values.indexOf(now) + 1) % values.length] });
	}

	sortBy(key) {
		this.state = { ...this.state, sort: key, desc: this.state.sort === key ? !this.state.desc
			: key !== "name" };
		this.table.sort();
		this.table.draw();
		this.writeLink();
	}

	pickSite(site, isQuiet) {
		const { model, icicle } = this, top = model.tops.indexOf(site), tracebacks = site.isCaller
			? this.tracebacksThrough(site) : site.tracebacks;
		this.state = { ...this.state, site: site.id };
		this.detail.show({ title: site.full, frame: site.frame, tracebacks, columns: model.columnsOf(site),
			colour: top >= 0 ? theme.tops[top] : "", site });
		icicle.focus = site.facet ? -1 : this.boxOfSite(site, tracebacks);
		if (icicle.focus > 0 && !isQuiet)
			icicle.reveal(icicle.focus);
		icicle.draw();
		this.table.show(site);
		this.writeLink();
	}

	// A second click: a site's box over all the width, or a facet's value as a filter.
	enterSite(site) {
		if (site.facet)
			return this.set({ [site.facet.id]: String(site.value), group: "line" });
		this.pickSite(site);
		this.icicle.zoomTo(this.icicle.focus);
	}

	tracebacksThrough(site) {
		const { report, model } = this, groups = model.groupOf(this.state.group),
			inside = new Uint8Array(report.parent.length);
		for (let n = 1; n < inside.length; n++)
			inside[n] = inside[report.parent[n]] || groups.of(report.nodeFrame[n]) === site.group ? 1 : 0;
		return Array.from(report.site.keys()).filter(t => inside[report.site[t]]);
	}

	// The widest box of the site's frame.
	boxOfSite(site, tracebacks) {
		const { tree } = this.icicle, weight = new Map(), box = this.report.boxOf[site.frame],
			worth = this.model.columns[this.state.b].bytes;
		for (const t of tracebacks) {
			let at = tree.end[t];
			while (at > 0 && tree.box[at] !== box)
				at = tree.parent[at];
			if (at > 0)
				weight.set(at, (weight.get(at) || 0) + worth[t]);
		}
		return [...weight].sort((p, q) => q[1] - p[1])[0]?.[0] ?? -1;
	}

	pickBox(id) {
		if (id <= 0)
			return;
		const { model, icicle } = this, { tree } = icicle, tracebacks = tree.tracebacksOf(id),
			frame = tree.frame[id], top = model.tops[tree.tint[id]];
		const inside = new Set(tracebacks), site = top && top.tracebacks.length === tracebacks.length &&
			top.tracebacks.every(t => inside.has(t)) ? top : null;
		this.detail.show({ title: this.report.fullName(frame), frame, tracebacks, columns: model.columns,
			colour: icicle.colourOf(id), site });
		this.state = { ...this.state, site: site ? site.id : "" };
		this.table.paint();
		byId("live").textContent = this.report.label(frame) + ", " + icicle.valueText(id);
		this.writeLink();
	}

	// The widest box of a frame, over all the width.
	pickFrame(frame) {
		const { tree } = this.icicle, box = this.report.boxOf[frame];
		let best = -1;
		for (let id = 1; id < tree.nr; id++)
			if (tree.box[id] === box && (best < 0 || tree.width[id] > tree.width[best]))
				best = id;
		if (best > 0) {
			this.icicle.zoomTo(best);
			this.icicle.select(best);
		}
	}

	restoreSelection() {
		const { rows } = this.table, site = rows.find(r => r.site.id === this.state.site)?.site ||
			rows[0]?.site;
		if (site)
			return this.pickSite(site, true);
		this.state = { ...this.state, site: "" };
		this.detail.show({ title: "", frame: -1, tracebacks: [], columns: this.model.columns, colour: "" });
	}

	zoomed() {
		const { tree, zoom } = this.icicle;
		this.state = { ...this.state,
			zoom: zoom ? tree.path(zoom).map(n => this.report.boxFrame[tree.box[n]]).join(".") : "" };
		byId("unzoom").hidden = !zoom;
		this.writeLink();
	}

	// A zoom is a path of frames; a line's box has the same frame as its function's.
	restoreZoom() {
		const { tree } = this.icicle, frames = this.state.zoom ? this.state.zoom.split(".").map(Number) : [];
		let at = 0;
		for (const frame of frames) {
			let child = tree.first[at];
			while (child && this.report.boxFrame[tree.box[child]] !== frame)
				child = tree.next[child];
			if (!child)
				break;
			at = child;
		}
		this.icicle.zoomTo(at);
	}

	// Undoes the last kind of choice: menu, search, zoom, filters, then the moments.
	escape() {
		document.activeElement?.blur();
		const filters = Object.fromEntries(["born", ...this.model.facets.list.map(f => f.id)].filter(id =>
			this.state[id]).map(id => [id, ""]));
		if (this.filters.close())
			return;
		if (this.state.q) {
			byId("q").value = "";
			this.set({ q: "" });
		} else if (this.icicle.zoom) {
			this.icicle.zoomTo(0);
		} else if (Object.keys(filters).length) {
			this.set(filters);
		} else {
			this.set({ a: this.first.a, b: this.first.b, measure: this.first.measure });
		}
	}

	// ---- the rest of the window

	writeLink() {
		const words = writeFragment(this.state, this.first), link = words ? "#" + words : "";
		if (link !== location.hash)
			history.replaceState(null, "", link || location.pathname + location.search);
	}

	setTheme(name, isKept = true) {
		document.documentElement.dataset.theme = name;
		readTheme();
		if (isKept)
			keepTheme(name);
		this.draw();
		this.restoreSelection();
	}

	toggleTheme() { this.setTheme(theme.dark ? "light" : "dark"); }

	toggleWide() {
		document.body.classList.toggle("wide");
		this.draw();
	}

	copyTable() { copyText(this.table.text()); }

	// Choices that this report has no data for are not shown.
	offerChoices() {
		byId("what").hidden = !this.report.hasChurn;
		byId("filter").hidden = !this.model.facets.list.length;
		for (const facet of this.model.facets.list)
			byId("group").append(element("option", { value: facet.id }, facet.title.toLowerCase()));
	}

	listen() {
		for (const button of document.querySelectorAll("[data-set]"))
			button.addEventListener("click",
				() => this.set(Object.fromEntries([button.dataset.set.split("=")])));
		byId("group").addEventListener("change", e => this.set({ group: e.target.value }));
		byId("what").addEventListener("change", e => this.set({ what: e.target.value }));
		byId("q").addEventListener("input", e => this.set({ q: e.target.value.trim() }));
		byId("theme").addEventListener("click", () => this.toggleTheme());
		byId("help").addEventListener("click", () => byId("keys").showModal());
		byId("about").addEventListener("click", () => openFacts(this));
		byId("unzoom").addEventListener("click", () => this.icicle.zoomTo(0));
		byId("copytable").addEventListener("click", () => this.copyTable());
		byId("whole").addEventListener("click", () => this.set({ a: 0, b: this.model.last }));
		addEventListener("resize", () => this.draw());
		addEventListener("beforeprint", () => {
			this.screenTheme ||= document.documentElement.dataset.theme;
			this.setTheme("light", false);
		});
		addEventListener("afterprint", () => {
			this.setTheme(this.screenTheme, false);
			this.screenTheme = "";
		});
		addEventListener("hashchange", () => {
			this.state = readFragment(location.hash.slice(1), this.first, this.model, this.report);
			this.showState();
		});
		listenToKeys(this);
	}
}

async function start() {
	const began = performance.now();
	try {
		document.documentElement.dataset.theme = preferredTheme();
		readTheme();
		const report = await loadReport(), read = performance.now(), app = window.allocsnap = new App(report);
		requestAnimationFrame(() => {
			app.ready = { load: read - began, build: performance.now() - read,
				sinceNavigation: performance.now() };
			document.documentElement.dataset.ready = "1";
		});
	} catch (error) {
		byId("verdict").replaceChildren(element("h1", {}, "This report cannot be shown"),
			element("p", {}, String(error?.message || error)));
		throw error;
	}
}

start();
