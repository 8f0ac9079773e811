// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Filters by key: thread, domain, size class, age, process, host. Each is a facet with values; the reader ticks some.

import { visible } from "./names.js";

// Ages as `--group-by age` has them; the last has no end.
const AGES = [["< 1s", 1], ["1s - 10s", 10], ["10s - 1m", 60], ["1m - 10m", 600], ["10m - 1h", 3600],
	["1h - 1d", 86400], [">= 1d", Infinity]];
const SIZE_UNITS = [" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"];

// As in `--group-by size-class`: class n has sizes that need n bits.
export function sizeClassName(n) {
	const power = bits => 2 ** (bits % 10) + SIZE_UNITS[Math.floor(bits / 10)];
	return n ? "[" + power(n - 1) + ", " + power(n) + ")" : "0 B";
}

const processName = p => visible(p.comm || "process") + "[" + p.pid + "]";

// The class of age at the last snapshot of the blocks that were born in a bin.
function ageClasses(report) {
	const births = report.birthsNs, now = births[births.length - 1];
	return births.map(limit => AGES.findIndex(([, below]) => now - limit < below * 1e9));
}

// One row a facet: what it is made of, and how its values are called.
function describeFacets(report) {
	const { process, thread, domain, size_class: size, birth } = report.keys, ages = ageClasses(report);
	const host = p => p.host || "?", hosts = [...new Set(report.processes.map(host))],
		isManyHosts = hosts.length > 1;
	const hostOf = v => hosts.indexOf(host(report.processes[v]));
	const nameOf = p => processName(p) + (isManyHosts ? " on " + visible(host(p)) : "");
	const domainOf = v => visible(report.domains[v]?.name || String(report.domains[v]?.number ?? v));
	const same = v => v, ageTitle = report.snapshots.length > 1 ? "Age at the last snapshot" : "Age";
	return [
		{ id: "host", title: "Host", column: isManyHosts && process, value: hostOf, label: v =>
			visible(hosts[v]) },
		{ id: "process", title: "Process", column: process, value: same, label: v =>
			nameOf(report.processes[v]) },
		{ id: "thread", title: "Thread", column: thread, value: same, label: v => v > 0 ? String(v)
			: "not known" },
		{ id: "domain", title: "Domain", column: domain, value: same, label: domainOf },
		{ id: "size", title: "Size of blocks", column: size, value: same, label: sizeClassName,
			isOrdered: true },
		{ id: "age", title: ageTitle, column: birth, value: v => ages[v], label: v =>
			AGES[v]?.[0] ?? "not known", isOrdered: true },
	];
}

// The values that the state has ticked: "4711,4712".
export const tickedValues = text => String(text || "").split(",").filter(value => value !== "");

export class Facets {
	constructor(report) {
		this.report = report;
		this.list = describeFacets(report).filter(f => f.column);
		for (const facet of this.list) {
			facet.ofKey = Int32Array.from(facet.column, facet.value);
			facet.values = [...new Set(facet.ofKey)].sort((a, b) => a - b);
		}
		this.list = this.list.filter(f => f.values.length > 1);
	}

	facet(id) { return this.list.find(f => f.id === id); }

	// Filters in a link: { thread: "4711,4712", born: "before" } as a set of values for each facet.
	chosen(state) {
		const out = [];
		for (const facet of this.list) {
			const values = tickedValues(state[facet.id]).map(Number).filter(v => facet.values.includes(v));
			if (values.length)
				out.push({ facet, values: new Set(values) });
		}
		return out;
	}

	// Whether blocks of each birth are older than snapshot A; null if that is not recorded.
	bornBefore(a) {
		const births = this.report.birthsNs, { birth } = this.report.keys,
			at = a >= 0 ? this.report.snapshots[a].monotonic_ns : undefined;
		if (!birth || at === undefined)
			return null;
		return Uint8Array.from(birth, v => births[v] <= at ? 1 : 0);
	}

	// Which keys the filters keep: { keep: 1 or 0 by key, or null for all; name }. `except` leaves one facet out.
	selection(state, except) {
		const chosen = this.chosen(state).filter(c => c.facet.id !== except), born = except === "born" ? ""
			: state.born;
		const before = born ? this.bornBefore(state.a) : null;
		if (!chosen.length && !before)
			return { keep: null, name: "" };
		const keep = new Uint8Array(this.report.nrKeys).fill(1);
		for (const { facet, values } of chosen)
			for (let key = 0; key < keep.length; key++)
				if (!values.has(facet.ofKey[key]))
					keep[key] = 0;
		for (let key = 0; before && key < keep.length; key++)
			if (Boolean(before[key]) !== (born === "before"))
				keep[key] = 0;
		return { keep, name: this.nameOf(chosen, before && born + state.a) };
	}

	nameOf(chosen, born) {
		return chosen.map(c => c.facet.id + "=" + [...c.values].sort().join(",")).join(" ") +
			(born ? " born=" + born : "");
	}

	// Live bytes and blocks of each value of a facet at a snapshot, of what the other filters keep.
	sums(facet, state) {
		const { keep } = this.selection(state, facet.id), rows = this.report.rowsAt(state.b),
			out = new Map(facet.values.map(v => [v, { value: v, bytes: 0, blocks: 0 }]));
		for (let row = 0; row < this.report.nrRows; row++) {
			const key = this.report.rowKey[row];
			if (keep && !keep[key])
				continue;
			const sum = out.get(facet.ofKey[key]);
			sum.bytes += rows.size[row] + (rows.size_beyond?.[row] || 0);
			sum.blocks += rows.count[row] + (rows.count_beyond?.[row] || 0);
		}
		const ticked = tickedValues(state[facet.id]);
		const list = [...out.values()].filter(s => s.bytes || s.blocks || ticked.includes(String(s.value)));
		return facet.isOrdered ? list : list.sort((p, q) => q.bytes - p.bytes);
	}
}
