// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Which sites grow steadily, since when and how fast.

const LEAST_BYTES = 16384; // a site that grows by less is not worth a headline
const LEAST_SNAPSHOTS = 5;

// For the values from each index on: the line that fits best, how much it leaves, and how much there is to explain.
function fitLinesFrom(times, values) {
	const out = [], t0 = times[0], v0 = values[0];
	let n = 0, t = 0, v = 0, tt = 0, tv = 0, vv = 0;
	for (let i = values.length - 1; i >= 0; i--) {
		const x = times[i] - t0, y = values[i] - v0;
		n++, t += x, v += y, tt += x * x, tv += x * y, vv += y * y;
		const spread = Math.max(0, vv - v * v / n), slope = tt - t * t / n > 0
			? (tv - t * v / n) / (tt - t * t / n) : 0;
		out[i] = { slope, spread, rest: Math.max(0, spread - slope * (tv - t * v / n)) };
	}
	return out;
}

// For the values before each index: how much their mean leaves.
function fitLevelsBefore(values) {
	const out = [0], v0 = values[0];
	let v = 0, vv = 0;
	values.forEach((value, i) => {
		v += value - v0;
		vv += (value - v0) ** 2;
		out.push(Math.max(0, vv - v * v / (i + 1)));
	});
	return out;
}

// Level until an onset, a line from there: the split that leaves least. Null unless it still grows at the end.
export function findSteadyGrowth(times, values) {
	const n = values.length, least = Math.max(4, Math.ceil(n / 5)), most = Math.max(...values);
	if (n < LEAST_SNAPSHOTS || values[n - 1] <= values[0] || most < LEAST_BYTES || values[n - 1] < 0.95 * most)
		return null;
	const lines = fitLinesFrom(times, values), levels = fitLevelsBefore(values);
	let from = 0;
	for (let i = 1; i <= n - least; i++)
		if (lines[i].rest + levels[i] < 0.8 * (lines[from].rest + levels[from]))
			from = i;
	let ups = 0;
	for (let i = from + 1; i < n; i++)
		ups += values[i] > values[i - 1];
	const { slope, rest, spread } = lines[from], late = lines[n - Math.max(3, Math.ceil((n - from) / 3))];
	const grown = values[n - 1] - values[from];
	const holds = grown >= LEAST_BYTES && rest <= 0.15 * spread && ups >= 0.6 * (n - 1 - from) &&
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
