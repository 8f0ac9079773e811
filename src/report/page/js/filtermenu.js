// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The menu of filters, and the chips that say what is filtered.

import { byId, element } from "./dom.js";
import { tickedValues } from "./facets.js";
import { formatBytes, formatCount } from "./numbers.js";

const MOST_VALUES = 200; // of a facet, the heaviest

const BORN = [["before", "born before A, still live in B"], ["after", "born after A"]];

// Ticks or unticks a value in the state's list of a facet.
function toggled(state, id, value) {
	const values = tickedValues(state[id]), text = String(value);
	return (values.includes(text) ? values.filter(v => v !== text) : [...values, text]).join(",");
}

export class FilterMenu {
	constructor(app) {
		this.app = app;
		this.panel = byId("filters");
		byId("filter").addEventListener("click", () => this.toggle());
		document.addEventListener("pointerdown", e => {
			if (!this.panel.hidden && !this.panel.contains(e.target) && !byId("filter").contains(e.target))
				this.close();
		});
	}

	get facets() { return this.app.model.facets; }

	toggle() {
		this.panel.hidden = !this.panel.hidden;
		byId("filter").setAttribute("aria-expanded", String(!this.panel.hidden));
		this.draw();
		this.panel.querySelector("button")?.focus();
	}

	close() {
		if (this.panel.hidden)
			return false;
		this.panel.hidden = true;
		byId("filter").setAttribute("aria-expanded", "false");
		byId("filter").focus();
		return true;
	}

	draw() {
		this.drawChips();
		if (this.panel.hidden)
			return;
		const { state, model } = this.app, focused = document.activeElement?.dataset?.facet;
		if (state.what !== "live" || !this.facets.list.length)
			return this.panel.replaceChildren(element("p", { class: "dim" }, state.what !== "live"
				? "Filters are for live blocks: what was " + state.what +
				" was counted by traceback only."
				: "Neither threads, domains, sizes nor ages of blocks differ, or they were left out."));
		const columns = this.facets.list.map(facet => this.facetColumn(facet));
		if (state.a >= 0 && model.facets.bornBefore(state.a))
			columns.push(this.bornColumn());
		this.panel.replaceChildren(...columns);
		if (focused)
			this.panel.querySelector(`[data-facet="${CSS.escape(focused)}"]`)?.focus();
	}

	facetColumn(facet) {
		const { state } = this.app, sums = this.facets.sums(facet, state),
			most = Math.max(1, ...sums.map(s => s.bytes));
		const chosen = this.facets.chosen(state).find(c => c.facet === facet)?.values || new Set();
		const rows = sums.slice(0, MOST_VALUES).map(s => this.valueButton(facet.id, s.value,
			facet.label(s.value), chosen.has(s.value), s, most));
		if (sums.length > MOST_VALUES)
			rows.push(element("p", { class: "dim" }, formatCount(sums.length - MOST_VALUES) +
				" smaller ones are not listed"));
		return element("fieldset", {}, element("legend", {}, facet.title),
			element("div", { class: "values" }, ...rows));
	}

	valueButton(id, value, label, isOn, sum, most) {
		return element("button", { class: "value", "aria-pressed": String(isOn), "data-facet": id + "=" + value,
			title: sum ? formatCount(sum.bytes) + " bytes in " + formatCount(sum.blocks) + " blocks" : "",
			onclick: () => this.app.set({ [id]: id === "born" ? isOn ? "" : value : toggled(this.app.state,
				id, value) }) },
		element("i", {}, isOn ? "✓" : ""), element("span", {}, label),
			sum && element("b", {}, formatBytes(sum.bytes)),
		sum && element("u", { style: { width: 100 * sum.bytes / most + "%" } }));
	}

	bornColumn() {
		return element("fieldset", {}, element("legend", {}, "Birth"), element("div", { class: "values" },
			...BORN.map(([value, label]) => this.valueButton("born", value, label,
				this.app.state.born === value))));
	}

	drawChips() {
		const { state } = this.app, chips = [];
		if (state.what === "live") {
			for (const { facet, values } of this.facets.chosen(state))
				chips.push(this.chip(facet.title.split(" ")[0].toLowerCase() + " " +
					[...values].slice(0, 3).map(facet.label).join(", ") +
					(values.size > 3 ? " …" : ""), facet.id));
			if (state.born && this.facets.bornBefore(state.a))
				chips.push(this.chip(state.born === "before" ? "older than A" : "younger than A",
					"born"));
		}
		byId("chips").replaceChildren(...chips);
		byId("filter").classList.toggle("on", chips.length > 0);
	}

	chip(text, id) {
		return element("button", { class: "chip on", title: "Remove this filter", onclick: () =>
			this.app.set({ [id]: "" }) }, "× " + text);
	}
}
