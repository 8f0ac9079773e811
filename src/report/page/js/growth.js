// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which sites grow steadily, since when and how fast.

const LEAST_BYTES = 16384; // a site that grows by less is not worth a headline
const LEAST_SNAPSHOTS = 5;

// Sums over values up to each index, so that the best line through any part is known at once.
class Sums {
	constructor(times, values) {
		const t0 = times[0], v0 = values[0];
		this.at = [[0, 0, 0, 0, 0]];
		values.forEach((value, i) => {
			const [t, v, tt, tv, vv] = this.at[i], x = times[i] - t0, y = value - v0;
			this.at.push([t + x, v + y, tt + x * x, tv + x * y, vv + y * y]);
		});
	}

	// For the values from one index to before another: slope of the best line, squares that it leaves, squares that
	// the mean leaves.
	line(from, to) {
		const n = to - from, [t, v, tt, tv, vv] = this.at[to].map((sum, i) => sum - this.at[from][i]);
		if (n < 1)
			return { slope: 0, rest: 0, spread: 0 };
		const spread = Math.max(0, vv - v * v / n), width = tt - t * t / n, slope = width > 0
			? (tv - t * v / n) / width : 0;
		return { slope, spread, rest: Math.max(0, spread - slope * (tv - t * v / n)) };
	}
}

// The onset that explains the values best: a line all along; or level, then a line; or a warm-up, level, then a line.
// More parts must explain enough to be worth it (the Bayesian criterion); noise of 1 % of the range explains nothing.
function findOnset(sums, values) {
	const n = values.length, least = Math.max(4, Math.ceil(n / 5)),
		range = Math.max(...values) - Math.min(...values);
	const score = (rest, parameters) => n * Math.log(rest / n + (range / 100) ** 2) + parameters * Math.log(n);
	let best = score(sums.line(0, n).rest, 2), onset = 0;
	const consider = (from, rest, parameters) => {
		const value = score(rest, parameters);
		if (value < best)
			[best, onset] = [value, from];
	};
	for (let from = 1; from <= n - least; from++) {
		const { rest } = sums.line(from, n);
		consider(from, rest + sums.line(0, from).spread, 4);
		for (let level = 2; level <= from - 2; level++)
			consider(from, rest + sums.line(0, level).rest + sums.line(level, from).spread, 7);
	}
	return onset;
}

// Null unless the values grow along a line from an onset on, above all that was before, and still do at the end.
export function findSteadyGrowth(times, values) {
	const n = values.length, most = Math.max(...values);
	if (n < LEAST_SNAPSHOTS || values[n - 1] <= values[0] || most < LEAST_BYTES || values[n - 1] < 0.95 * most)
		return null;
	const sums = new Sums(times, values), from = findOnset(sums, values), grown = values[n - 1] - values[from];
	const { slope, rest, spread } = sums.line(from, n), late = sums.line(n - Math.max(3, Math.ceil((n - from) / 3)),
		n);
	const ups = values.filter((value, i) => i > from && value > values[i - 1]).length;
	const above = values[n - 1] - Math.max(...values.slice(0, from + 1));
	const holds = grown >= LEAST_BYTES && above >= 0.5 * grown && rest <= 0.15 * spread &&
		ups >= 0.6 * (n - 1 - from) &&
		late.slope >= 0.35 * slope;
	return holds && slope > 0 ? { from, slope, grown } : null;
}

// The sites that grow steadily, fastest first. Gives each site `steady`.
export function findGrowers(times, sites) {
	for (const site of sites)
		site.steady = times ? findSteadyGrowth(times, site.bytes) : null;
	return sites.filter(s => s.steady).sort((a, b) => b.steady.slope - a.steady.slope);
}

// Chooses what the report says first. A site that grows while the whole shrinks is no headline, nor is a small part.
export function judgeGrowth(report, times, sites, columns) {
	const found = findGrowers(times, sites), last = columns.length - 1, top = found[0];
	if (!top)
		return { found, from: 0, last };
	const from = top.steady.from, total = columns[last].total.bytes - columns[from].total.bytes;
	const together = found.filter(s => Math.abs(s.steady.from - from) <= Math.max(1, Math.round(last / 20)));
	const seconds = times[last] - times[from], rise = s => s.bytes[last] - s.bytes[from];
	const grown = together.reduce((sum, s) => sum + rise(s), 0),
		gross = sites.reduce((sum, s) => sum + Math.max(0, rise(s)), 0);
	if (total <= 0 || grown < 0.1 * gross)
		return { found, from: 0, last };
	return { found, top, together, from, last, grown, share: grown / gross, perSecond: grown / seconds,
		topPerSecond: rise(top) / seconds,
		caller: findCommonCaller(report, together, columns[from].bytes, columns[last].bytes) };
}

// The deepest own frame that at least 80 % of the growth has in common.
function findCommonCaller(report, sites, before, after) {
	const weight = new Map();
	let all = 0;
	for (const site of sites)
		for (const t of site.tracebacks) {
			const w = after[t] - before[t];
			if (w <= 0)
				continue;
			all += w;
			weighCallers(report, t, w, weight);
		}
	let best = null;
	for (const e of weight.values())
		if (e.w >= 0.8 * all && (!best || e.depth > best.depth))
			best = e;
	return best && { frame: best.frame, share: best.w / all };
}

function weighCallers(report, traceback, w, weight) {
	const seen = new Set(), frames = report.traceback(traceback).filter(f => !report.isLibrary(f) &&
		report.kind(f) < 2).reverse();
	frames.forEach((frame, depth) => {
		const box = report.boxOf[frame];
		if (seen.has(box))
			return;
		seen.add(box);
		const e = weight.get(box) || { w: 0, depth: 0, frame };
		e.w += w;
		e.depth = Math.max(e.depth, depth);
		weight.set(box, e);
	});
}
