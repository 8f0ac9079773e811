// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Keys. Every choice of the page has one; `?` lists them (the list is in skeleton.html).

import { byId } from "./dom.js";
import { openFacts } from "./trust.js";

function keyTable(app) {
	const last = app.model.last, { a, b } = app.state, arrow = e => app.icicle.onKey(e.key);
	const enter = e => {
		if (/BUTTON|A|SUMMARY/.test(e.target.tagName))
			return false;
		const site = app.model.isFacet && app.model.sites.find(s => s.id === app.state.site);
		return site ? app.enterSite(site) : app.icicle.onKey("Enter");
	};
	return {
		"/": () => byId("q").focus(),
		"?": () => byId("keys").showModal(),
		i: () => openFacts(app),
		t: () => app.toggleTheme(),
		f: () => app.toggleWide(),
		F: () => !byId("filter").hidden && app.filters.toggle(),
		j: () => app.table.step(1),
		k: () => app.table.step(-1),
		y: () => app.detail.copy(),
		Y: () => app.copyTable(),
		n: () => app.detail.turn(1),
		p: () => app.detail.turn(-1),
		w: () => app.cycle("what"),
		m: () => app.cycle("measure"),
		u: () => app.cycle("unit"),
		r: () => app.cycle("order"),
		l: () => app.cycle("lib"),
		c: () => app.cycle("colour"),
		s: () => app.cycle("sum"),
		"]": () => app.set({ b: Math.min(last, b + 1) }),
		"[": () => b - 1 > a && app.set({ b: b - 1 }),
		"}": () => app.set({ a: Math.min(b - 1, a + 1) }),
		"{": () => app.set({ a: Math.max(-1, a - 1) }),
		a: () => last > 0 && app.set({ a: 0, b: last }),
		ArrowDown: arrow, ArrowUp: arrow, ArrowLeft: arrow, ArrowRight: arrow, Backspace: arrow,
		Enter: enter,
		Escape: () => app.escape(),
	};
}

export function listenToKeys(app) {
	addEventListener("keydown", e => {
		const isTyping = /INPUT|SELECT|TEXTAREA/.test(e.target.tagName),
			isInMenu = byId("filters").contains(e.target);
		if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]") ||
			(isTyping || isInMenu) && e.key !== "Escape")
			return;
		const run = keyTable(app)[e.key];
		if (run && run(e) !== false)
			e.preventDefault();
	});
}
