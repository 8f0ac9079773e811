// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The merged tree behind the icicle, root first or leaf first. Box 0 is the root; a parent has a smaller number.

class BoxTable {
	constructor(room) {
		this.slots = new Int32Array(1 << Math.max(8, Math.ceil(Math.log2(room * 2)))).fill(-1);
		this.parent = [-1];
		this.box = [-1];
		this.frame = [-1];
	}

	slotOf(parent, box) {
		const mask = this.slots.length - 1;
		let at = (Math.imul(parent, 0x9e3779b1) ^ Math.imul(box + 1, 0x85ebca6b)) >>> 7 & mask;
		while (this.slots[at] >= 0 && (this.parent[this.slots[at]] !== parent ||
			this.box[this.slots[at]] !== box))
			at = at + 1 & mask;
		return at;
	}

	// The child of `parent` with this box; the tree makes it if it has no such child.
	child(parent, box, frame) {
		const slot = this.slotOf(parent, box);
		if (this.slots[slot] >= 0)
			return this.slots[slot];
		const id = this.parent.length;
		this.slots[slot] = id;
		this.parent.push(parent);
		this.box.push(box);
		this.frame.push(frame);
		if (id * 2 > this.slots.length)
			this.grow();
		return id;
	}

	grow() {
		this.slots = new Int32Array(this.slots.length * 2).fill(-1);
		for (let id = 1; id < this.parent.length; id++)
			this.slots[this.slotOf(this.parent[id], this.box[id])] = id;
	}
}

// The box of a traceback that has only library frames.
function lonelyBox(report, table, traceback) {
	const frame = report.siteFrame(traceback);
	return frame < 0 ? 0 : table.child(0, report.boxOf[frame], frame);
}

// With `fold` library frames are left out, and below the site's function is a box of its line.
function buildRootFirst(report, table, fold) {
	const map = new Int32Array(report.parent.length);
	for (let n = 1; n < map.length; n++) {
		const frame = report.nodeFrame[n], above = map[report.parent[n]];
		map[n] = fold && report.isLibrary(frame) ? above : table.child(above, report.boxOf[frame], frame);
	}
	return Int32Array.from(report.leaf, (leaf, t) => {
		if (!fold)
			return map[leaf];
		const site = report.siteFrame(t), end = map[report.site[t]] || lonelyBox(report, table, t);
		return site >= 0 && report.frames.line[site] && report.frames.function[site] >= 0 &&
			!report.isLibrary(site)
			? table.child(end, report.lineBox(site), site) : end;
	});
}

function buildLeafFirst(report, table, fold) {
	return Int32Array.from(report.leaf, (leaf, t) => {
		let at = 0;
		for (let n = fold ? report.site[t] : leaf; n > 0; n = report.parent[n]) {
			const frame = report.nodeFrame[n];
			if (!fold || !report.isLibrary(frame))
				at = table.child(at, report.boxOf[frame], frame);
		}
		return at || lonelyBox(report, table, t);
	});
}

export class Tree {
	constructor(report, order, fold) {
		const table = new BoxTable(Math.min(report.parent.length, 1 << 16));
		this.end = (order === "leaf" ? buildLeafFirst : buildRootFirst)(report, table, fold);
		this.parent = Int32Array.from(table.parent);
		this.box = Int32Array.from(table.box);
		this.frame = Int32Array.from(table.frame);
		this.nr = this.parent.length;
		this.first = new Int32Array(this.nr);
		this.next = new Int32Array(this.nr);
		for (let id = this.nr - 1; id > 0; id--) {
			this.next[id] = this.first[this.parent[id]];
			this.first[this.parent[id]] = id;
		}
		for (const name of ["width", "before", "after", "weight"])
			this[name] = new Float64Array(this.nr);
		this.tint = new Int8Array(this.nr);
		this.sorted = new Map();
	}

	// Computes what each box is worth: its width, what was there before and after, and the top site that has most
	// of it. Each traceback's growth or shrinkage counts: inside a box they do not cancel out.
	fill({ before, after, measure, tints, nrTints }) {
		const { width, parent } = this, worth = this.worth = new Float64Array(this.end.length);
		for (const column of [width, this.before, this.after])
			column.fill(0);
		this.sorted.clear();
		for (let t = 0; t < worth.length; t++) {
			const at = this.end[t], a = before ? before[t] : 0, b = after[t];
			worth[t] = measure === "grown" ? Math.max(0, b - a) : measure === "shrunk" ? Math.max(0, a - b)
				: b;
			width[at] += worth[t];
			this.before[at] += a;
			this.after[at] += b;
		}
		for (let id = this.nr - 1; id > 0; id--) {
			const p = parent[id];
			width[p] += width[id];
			this.before[p] += this.before[id];
			this.after[p] += this.after[id];
		}
		this.tint.fill(-1);
		for (let k = 0; k < nrTints; k++)
			this.tintBy(k, tints);
	}

	// A box has the colour of a top site that has more than 60 % of it.
	tintBy(k, tints) {
		const { weight, parent, width, tint } = this;
		weight.fill(0);
		for (let t = 0; t < this.worth.length; t++)
			if (tints[t] === k)
				weight[this.end[t]] += this.worth[t];
		for (let id = this.nr - 1; id > 0; id--) {
			weight[parent[id]] += weight[id];
			if (weight[id] > 0.6 * width[id])
				tint[id] = k;
		}
	}

	// Widest first; kept until the widths change.
	children(id) {
		let out = this.sorted.get(id);
		if (!out) {
			out = [];
			for (let c = this.first[id]; c; c = this.next[c])
				if (this.width[c] > 0)
					out.push(c);
			out.sort((a, b) => this.width[b] - this.width[a]);
			this.sorted.set(id, out);
		}
		return out;
	}

	// The boxes from below the root to this one.
	path(id) {
		const out = [];
		for (; id > 0; id = this.parent[id])
			out.unshift(id);
		return out;
	}

	// The box at the end of a path of function boxes; 0 if the tree has no such path.
	find(boxes) {
		let at = 0;
		for (const box of boxes) {
			let child = this.first[at];
			while (child && this.box[child] !== box)
				child = this.next[child];
			if (!child)
				return 0;
			at = child;
		}
		return at;
	}

	// The tracebacks that pass through a box.
	tracebacksOf(id) {
		const inside = new Uint8Array(this.nr), out = [];
		inside[id] = 1;
		for (let n = id + 1; n < this.nr; n++)
			inside[n] = inside[this.parent[n]];
		for (let t = 0; t < this.end.length; t++)
			if (inside[this.end[t]])
				out.push(t);
		return out;
	}

	// Boxes that match and those above them; what matches is counted once.
	match(hits) {
		const matched = new Uint8Array(this.nr), inside = new Uint8Array(this.nr);
		let total = 0;
		for (let id = 1; id < this.nr; id++) {
			const above = inside[this.parent[id]], hit = hits[this.box[id]];
			inside[id] = above || hit ? 1 : 0;
			if (hit && !above)
				total += this.width[id];
			matched[id] = hit && this.width[id] > 0 ? 1 : 0;
		}
		for (let id = this.nr - 1; id > 0; id--)
			matched[this.parent[id]] |= matched[id];
		return { matched, inside, total };
	}
}
