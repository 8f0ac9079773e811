// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Columns of bytes and blocks by traceback, of one measure and of the rows that a filter keeps.

// Live blocks. A snapshot has only the rows that changed, so its column begins as a copy of the column before.
// Estimates are added up anew each time: sums of reals would drift.
function liveColumns(report, keep) {
	const { nrTracebacks, nrRows, rowTraceback, rowKey, isSampled } = report, out = [];
	const bytesNow = new Float64Array(nrRows), blocksNow = new Float64Array(nrRows);
	for (const [s, { row, columns: c }] of report.snapshots.entries()) {
		const bytes = s && !isSampled ? out[s - 1].bytes.slice() : new Float64Array(nrTracebacks);
		const blocks = s && !isSampled ? out[s - 1].blocks.slice() : new Float64Array(nrTracebacks);
		for (let i = 0; i < row.length; i++) {
			const at = row[i], size = c.size[i] + (isSampled ? c.size_beyond[i] : 0), count = c.count[i] +
				(isSampled ? c.count_beyond[i] : 0);
			if (!isSampled && (!keep || keep[rowKey[at]])) {
				bytes[rowTraceback[at]] += size - bytesNow[at];
				blocks[rowTraceback[at]] += count - blocksNow[at];
			}
			bytesNow[at] = size;
			blocksNow[at] = count;
		}
		for (let at = 0; isSampled && at < nrRows; at++)
			if (!keep || keep[rowKey[at]]) {
				bytes[rowTraceback[at]] += bytesNow[at];
				blocks[rowTraceback[at]] += blocksNow[at];
			}
		out.push({ bytes, blocks });
	}
	return out;
}

// All blocks since the recording began: allocated, or freed before their thread allocated again.
function churnColumns(report, size, count) {
	const out = [];
	for (const [s, { churn }] of report.snapshots.entries()) {
		const bytes = s ? out[s - 1].bytes.slice() : new Float64Array(report.nrTracebacks);
		const blocks = s ? out[s - 1].blocks.slice() : new Float64Array(report.nrTracebacks);
		for (let i = 0; i < (churn?.traceback.length || 0); i++) {
			bytes[churn.traceback[i]] = churn[size][i];
			blocks[churn.traceback[i]] = churn[count][i];
		}
		out.push({ bytes, blocks });
	}
	return out;
}

export class ColumnStore {
	constructor(report) {
		this.report = report;
		this.kept = new Map();
	}

	// what: live, allocated or temporary. keep: which keys take part, null for all; name: of this choice of keys.
	columns(what, keep, name) {
		const key = what + "\n" + (what === "live" ? name : "");
		let columns = this.kept.get(key);
		if (!columns) {
			columns = what === "live" ? liveColumns(this.report, keep)
				: what === "allocated" ? churnColumns(this.report, "allocated_bytes", "allocations")
				: churnColumns(this.report, "temporary_bytes", "temporary");
			for (const c of columns)
				c.total = { bytes: sumColumn(c.bytes), blocks: sumColumn(c.blocks) };
			this.forget();
			this.kept.set(key, columns);
		}
		return columns;
	}

	// Long histories of large trees take tens of megabytes for each choice.
	forget() {
		for (const key of this.kept.keys())
			if (this.kept.size > 3 && key !== "live\n")
				this.kept.delete(key);
	}
}

function sumColumn(values) {
	let sum = 0;
	for (let i = 0; i < values.length; i++)
		sum += values[i];
	return Math.round(sum);
}
