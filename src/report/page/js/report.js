// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The data in the page (docs/report-format.md): inflated, decoded into typed columns, and its frames named.

import { baseName, shortName, visible } from "./names.js";

export const KIND = { call: 0, inlined: 1, missing: 2, merged: 3, none: 4, smallSites: 5 };

const KIND_NAMES = { 2: "(frames are missing here)", 3: "(small tracebacks, merged)", 4: "(no traceback)",
	5: "(small sites, merged)" };
const SAMPLE_COLUMNS = ["size_beyond", "size_variance", "size_covariance", "count_beyond", "count_variance",
	"count_covariance"];

// Numbers that are given as what they add to the number before them.
function sumUp(differences, Column = Int32Array) {
	const out = new Column(differences.length);
	for (let i = 0, at = 0; i < out.length; i++)
		out[i] = at += differences[i];
	return out;
}

export class Report {
	constructor(json) {
		if (json.schema !== "allocsnap.report/1")
			throw new Error("the data are of another version: " + visible(String(json.schema)));
		this.question = json.question || { kind: "history", filters: [], given: json.snapshots.length };
		this.isFleet = !json.process;
		this.processes = json.process ? [json.process] : json.processes;
		this.process = this.processes[0] || {};
		this.allocsnap = json.allocsnap;
		this.warnings = json.warnings || [];
		this.merged = json.merged || null;
		this.leaks = json.leaks || null;
		this.strings = json.strings;
		this.frames = json.frames;
		this.sources = json.sources || {};
		this.gaps = json.gaps || [];
		this.gapsJoined = json.gaps_joined || 0;
		this.domains = json.domains || [];
		this.birthsNs = json.births_ns || [];
		this.readTracebacks(json);
		this.readRows(json);
		this.readSnapshots(json.snapshots);
		this.nameBoxes();
	}

	readTracebacks({ nodes, tracebacks }) {
		this.parent = Int32Array.from(nodes.up, (up, n) => n - up);
		this.nodeFrame = Int32Array.from(nodes.frame);
		this.leaf = sumUp(tracebacks.node);
		this.cut = tracebacks.cut;
		this.nrTracebacks = this.leaf.length;
		this.site = Int32Array.from(this.leaf, (node, i) => {
			for (let passed = tracebacks.passed[i]; passed > 0 && node > 0; passed--)
				node = this.parent[node];
			return node;
		});
	}

	// A row counts blocks of one traceback and one key: thread, domain, size class, birth, process.
	readRows({ rows, keys }) {
		this.rowTraceback = sumUp(rows.traceback);
		this.nrRows = this.rowTraceback.length;
		this.rowKey = rows.key ? Int32Array.from(rows.key) : new Int32Array(this.nrRows);
		this.keys = keys || {};
		this.nrKeys = Math.max(1, ...Object.values(this.keys).map(column => column.length));
		this.firstRow = new Int32Array(this.nrTracebacks + 1);
		for (let i = 0; i < this.nrRows; i++)
			this.firstRow[this.rowTraceback[i] + 1]++;
		for (let i = 0; i < this.nrTracebacks; i++)
			this.firstRow[i + 1] += this.firstRow[i];
	}

	readSnapshots(snapshots) {
		this.snapshots = snapshots;
		this.isSampled = snapshots.some(s => s.size_beyond);
		this.hasChurn = snapshots.some(s => s.churn);
		for (const s of snapshots) {
			s.row = sumUp(s.row);
			s.losses ||= {};
			s.columns = { size: Float64Array.from(s.size), count: Float64Array.from(s.count) };
			if (this.isSampled)
				for (const name of SAMPLE_COLUMNS)
					s.columns[name] = Float64Array.from(s[name] || new Float64Array(s.row.length));
			if (s.churn)
				s.churn.traceback = sumUp(s.churn.traceback);
			for (const name of ["size", "count", ...SAMPLE_COLUMNS])
				delete s[name];
		}
	}

	// The columns of every row at a snapshot: the changes up to it, one after another.
	rowsAt(snapshot) {
		this.rowCache ||= new Map();
		if (this.rowCache.has(snapshot))
			return this.rowCache.get(snapshot);
		const out = {};
		for (const name of Object.keys(this.snapshots[0].columns)) {
			const values = out[name] = new Float64Array(this.nrRows);
			for (let s = 0; s <= snapshot; s++) {
				const { row, columns } = this.snapshots[s], changed = columns[name];
				for (let i = 0; i < row.length; i++)
					values[row[i]] = changed[i];
			}
		}
		if (this.rowCache.size > 3)
			this.rowCache.delete(this.rowCache.keys().next().value);
		this.rowCache.set(snapshot, out);
		return out;
	}

	// ---- frames and their names

	// Frames of one function share a box of the icicle; frames without a function are told apart by their place.
	nameBoxes() {
		const f = this.frames, ids = new Map();
		this.nrFrames = f.line.length;
		this.boxOf = new Int32Array(this.nrFrames);
		this.boxFrame = [];
		for (let i = 0; i < this.nrFrames; i++) {
			const key = this.kind(i) > KIND.inlined ? "k" + this.kind(i) : f.function[i] >= 0 ? "f" +
				f.function[i]
				: f.line[i] ? "l" + f.file[i] + ":" + f.line[i] : "o" + f.object[i] + "+" + f.offset[i];
			if (!ids.has(key)) {
				ids.set(key, ids.size);
				this.boxFrame.push(i);
			}
			this.boxOf[i] = ids.get(key);
		}
		this.labels = new Array(this.nrFrames);
		this.lineBoxes = new Map();
		this.nrFunctionBoxes = this.boxFrame.length;
	}

	// Below a function's box, root first, are boxes of its lines that allocate.
	lineBox(frame) {
		const key = this.frames.file[frame] + ":" + this.frames.line[frame] + ":" + this.boxOf[frame];
		if (!this.lineBoxes.has(key))
			this.lineBoxes.set(key, this.boxFrame.push(frame) - 1);
		return this.lineBoxes.get(key);
	}

	kind(frame) { return this.frames.kind?.[frame] || 0; }
	isLibrary(frame) { return this.frames.library[frame] === 1; }
	text(index) { return index >= 0 ? this.strings[index] : ""; }
	siteFrame(traceback) { return this.nodeFrame[this.site[traceback]]; }

	source(frame) { return this.sources[this.frames.file[frame]]?.[this.frames.line[frame]]; }

	fullName(frame) {
		const f = this.frames;
		return f.function[frame] >= 0 ? visible(this.strings[f.function[frame]]) : this.label(frame);
	}

	label(frame) {
		return this.labels[frame] ??= this.makeLabel(frame);
	}

	makeLabel(frame) {
		const f = this.frames;
		if (frame < 0)
			return KIND_NAMES[KIND.none];
		if (this.kind(frame) > KIND.inlined)
			return KIND_NAMES[this.kind(frame)];
		if (f.function[frame] >= 0)
			return shortName(this.strings[f.function[frame]]);
		return f.line[frame] ? this.place(frame) : this.addressIn(frame, baseName(this.text(f.object[frame])));
	}

	addressIn(frame, object) {
		const offset = "0x" + this.frames.offset[frame].toString(16);
		return object ? visible(object) + "+" + offset : offset;
	}

	place(frame) {
		const f = this.frames;
		if (frame < 0 || this.kind(frame) > KIND.inlined)
			return "";
		return f.line[frame] ? visible(baseName(this.text(f.file[frame]))) + ":" + f.line[frame]
			: visible(baseName(this.text(f.object[frame])));
	}

	longPlace(frame) {
		const f = this.frames;
		if (frame < 0 || this.kind(frame) > KIND.inlined)
			return "";
		return f.line[frame] ? visible(this.text(f.file[frame])) + ":" + f.line[frame]
			: this.addressIn(frame, this.text(f.object[frame]));
	}

	// Frames of a traceback, most recent first.
	traceback(index) {
		const out = [];
		for (let n = this.leaf[index]; n > 0; n = this.parent[n])
			out.push(this.nodeFrame[n]);
		return out;
	}

	nrPassed(index) {
		let passed = 0;
		for (let n = this.leaf[index]; n !== this.site[index]; n = this.parent[n])
			passed++;
		return passed;
	}
}

async function inflate(text) {
	const raw = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text),
		c => c.charCodeAt(0));
	const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"));
	return JSON.parse(await new Response(stream).text());
}

export async function loadReport() {
	const data = document.getElementById("data"), report = new Report(await inflate(data.textContent.trim()));
	data.remove();
	return report;
}
