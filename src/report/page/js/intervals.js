// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// 95 % intervals of sampled data, as the engine computes them (docs/report-format.md, docs/sampling.md).

const Z2 = 1.959963984540054 ** 2; // 95 % of a normal distribution
const UNSEEN_SAMPLES = 2, UNEVEN_SAMPLES = 4, SAMPLES_TO_COUNT = 20, ALIKE_TO_COUNT = 4, ALIKE = 1.1;
const NOTHING = { sampled: 0, beyond: 0, variance: 0, covariance: 0 };

// The score's interval around an estimate.
function intervalAround(centre, { variance, covariance }, estimate) {
	if (!(variance > 0))
		return [estimate, estimate];
	const shift = Z2 * covariance / variance / 2, half = Math.sqrt(Z2 * variance + shift * shift);
	return [Math.min(estimate, Math.ceil(centre + shift - half)),
		Math.max(estimate, Math.floor(centre + shift + half))];
}

const addUnseen = (m, weight) => ({ ...m, variance: m.variance + UNSEEN_SAMPLES * weight ** 2,
	covariance: m.covariance + UNSEEN_SAMPLES * weight ** 3 });

// For counts: more samples of great weights (of small blocks), as far as the weights differ. `all`: the sums of all
// samples.
function addUneven(m, all) {
	const slope = m.variance > 0 ? m.covariance / m.variance : 0,
		excess = slope - (all.sampled > 0 ? all.beyond / all.sampled : 0);
	return excess > 0 ? { ...m, variance: m.variance + UNEVEN_SAMPLES * slope * excess,
		covariance: m.covariance + UNEVEN_SAMPLES * slope * slope * excess } : m;
}

// Whether samples show how far off a number of blocks may be: enough of them, or all of one weight.
const isCountTold = ({ sampled, beyond, variance, covariance }) => sampled >= SAMPLES_TO_COUNT || !(variance > 0) ||
	sampled >= ALIKE_TO_COUNT && covariance / variance <= ALIKE * beyond / sampled;

// The part of the first that the second lacks.
const beyondOf = (m, n) => Object.fromEntries(Object.keys(NOTHING).map(key => [key, Math.max(0, m[key] - n[key])]));

const addMoments = (m, n) => Object.fromEntries(Object.keys(NOTHING).map(key => [key, m[key] + n[key]]));

export class Intervals {
	constructor(report) {
		this.report = report;
	}

	// Adds up the rows of some tracebacks: as size and as count. `takes` says which keys take part.
	sum(tracebacks, rows, takes) {
		const { firstRow, rowKey } = this.report, size = { ...NOTHING }, count = { ...NOTHING };
		for (const t of tracebacks)
			for (let row = firstRow[t]; row < firstRow[t + 1]; row++)
				if (!takes || takes[rowKey[row]])
					for (const [sum, name] of [[size, "size"], [count, "count"]]) {
						sum.sampled += rows[name][row];
						sum.beyond += rows[name + "_beyond"][row];
						sum.variance += rows[name + "_variance"][row];
						sum.covariance += rows[name + "_covariance"][row];
					}
		return { size, count };
	}

	// Moments, and what chance or a coarse rate may have left out of them.
	withUnseen(m, snapshot, unit, sums) {
		const bytes = this.report.snapshots[snapshot].sampling?.unseen_bytes || 0;
		const mean = sums.count.sampled > 0 && sums.size.sampled > sums.count.sampled
			? sums.size.sampled / sums.count.sampled : 1;
		return unit === "bytes" ? addUnseen(m, bytes) : addUnseen(addUneven(m, sums.count), bytes / mean);
	}

	// No interval covers what was allocated in a gap, because it is in no sample. A fleet knows only the blocks
	// that lived through a gap. Pools are not chosen by chance.
	isOpen(snapshot) {
		const { sampling, gap_blocks } = this.report.snapshots[snapshot];
		return Boolean(sampling?.has_gaps || sampling?.has_pools || this.report.isFleet && gap_blocks?.count);
	}

	// [low, high] of what the tracebacks hold at a snapshot; null if nothing was left to chance. high is Infinity
	// if the samples do not show how many blocks there may be.
	held(tracebacks, snapshot, unit, keep) {
		const sums = this.sum(tracebacks, this.report.rowsAt(snapshot), keep), m = unit === "bytes" ? sums.size
			: sums.count;
		if (unit !== "bytes" && !isCountTold(m))
			return [m.sampled, Infinity];
		const estimate = m.sampled + Math.round(m.beyond);
		const [low, high] = intervalAround(m.sampled + m.beyond,
			this.withUnseen(m, snapshot, unit, sums), estimate);
		return high > low ? [Math.max(low, m.sampled), high] : null;
	}

	// [low, high] of what changed from A to B. A block in both is one sample and adds no error. Of what was
	// born before A nothing is new in B, and of what was born later nothing was in A, but for blocks that were born
	// while A was taken. `before` says which keys are older; null: not known, which is wider.
	change(tracebacks, a, b, unit, keep, before) {
		const rowsA = this.report.rowsAt(a), rowsB = this.report.rowsAt(b), pick = s => unit === "bytes"
			? s.size : s.count;
		const choose = isOld => before.map((old, key) => Boolean(old) === isOld && (!keep || keep[key]) ? 1
			: 0);
		const sumsA = this.sum(tracebacks, rowsA, keep), sumsB = this.sum(tracebacks, rowsB, keep),
			now = pick(sumsB), then = pick(sumsA);
		let apart = now, thenApart = then;
		if (before) {
			apart = thenApart = NOTHING;
			for (const isOld of [true, false]) {
				const inA = pick(this.sum(tracebacks, rowsA, choose(isOld)));
				const inB = pick(this.sum(tracebacks, rowsB, choose(isOld)));
				apart = addMoments(apart, beyondOf(inB, inA));
				thenApart = addMoments(thenApart, beyondOf(inA, inB));
			}
		}
		if (unit !== "bytes" && !isCountTold(addMoments(apart, thenApart)))
			return [-Infinity, Infinity];
		const p = this.withUnseen(apart, b, unit, sumsB);
		if (unit !== "bytes")
			thenApart = addUneven(thenApart, sumsA.count);
		const estimate = now.sampled + Math.round(now.beyond) - then.sampled - Math.round(then.beyond);
		const moments = { variance: p.variance + thenApart.variance,
			covariance: p.covariance - thenApart.covariance };
		const [low, high] = intervalAround(now.sampled - then.sampled + now.beyond - then.beyond, moments,
			estimate);
		return high > low ? [low, high] : null;
	}
}
