// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The choices of the reader, and their form in the address: only what differs from the first view.

import { isFrameGroup } from "./sites.js";

export const CHOICES = {
	order: ["root", "leaf"], lib: ["fold", "dim"], what: ["live", "allocated", "temporary"],
		measure: ["held", "grown", "shrunk"],
	unit: ["bytes", "blocks"], colour: ["site", "change"], sum: ["self", "all"], born: ["before", "after"],
};
const FACETS = ["host", "process", "thread", "domain", "size", "age"];
const TEXTS = ["q", "site", "zoom", ...FACETS];
const SORTS = ["name", "delta", "rate", "size", "count", "average", "share", "self"];

// a is −1 without a comparison.
export function firstState(model) {
	const { headline, last } = model, a = headline ? headline.from : last > 0 && last < 3 ? 0 : -1;
	return { a, b: last, what: "live", measure: a >= 0 ? "grown" : "held", unit: "bytes", order: "root",
		lib: "fold", colour: "", group: "line", sum: "self",
		sort: a >= 0 ? "delta" : "size", desc: true, site: "", q: "", zoom: "", born: "",
			...Object.fromEntries(FACETS.map(f => [f, ""])) };
}

export function writeFragment(state, first) {
	return Object.entries(state).filter(([name, value]) => value !== first[name]).map(([name, value]) => name +
		"=" + encodeURIComponent(value)).join("&");
}

// A state from a fragment. Values that make no sense here are left out, so an old link still opens the report.
export function readFragment(fragment, first, model, report) {
	const state = { ...first }, last = model.last;
	for (const [name, value] of new URLSearchParams(fragment)) {
		if (name === "a" || name === "b")
			state[name] = Math.max(name === "a" ? -1 : 0, Math.min(last, Math.trunc(Number(value)) || 0));
		else if (CHOICES[name]?.includes(value) || TEXTS.includes(name) || name === "sort" &&
			SORTS.includes(value))
			state[name] = value;
		else if (name === "group" && (isFrameGroup(value) || model.facets.facet(value)))
			state.group = value;
		else if (name === "desc")
			state.desc = value === "true";
	}
	return settleState(state, model, report);
}

// Makes choices that exclude each other agree.
export function settleState(state, model, report) {
	if (state.a >= state.b)
		state.a = -1;
	if (state.a < 0) {
		state.born = "";
		if (state.measure !== "held")
			state.measure = "held";
		if (state.sort === "delta" || state.sort === "rate")
			state.sort = "size";
	}
	if (state.what !== "live" && !report.hasChurn)
		state.what = "live";
	const isFacet = !isFrameGroup(state.group);
	if (isFacet && (state.what !== "live" || !model.facets.facet(state.group)))
		state.group = "line";
	if (isFacet)
		state.sum = "self";
	return state;
}
