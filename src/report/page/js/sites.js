// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Sites: tracebacks by the line, function, file or object of their first own frame, as `stats --group-by` has them; and
// blocks by a facet (thread, host …).

import { KIND } from "./report.js";
import { baseName, visible } from "./names.js";

const FRAME_GROUPS = ["line", "function", "file", "object"];

export const isFrameGroup = by => FRAME_GROUPS.includes(by);

const UNKNOWN = "<unknown>";

// A short text that is the same in every report: for links.
export function hashText(text) {
	let hash = 0x811c9dc5;
	for (let i = 0; i < text.length; i++)
		hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
	return (hash >>> 0).toString(36);
}

// The key of a frame. Frames without a line are equal if function, object and offset are.
function frameKey(report, frame, by) {
	const f = report.frames;
	const kind = frame < 0 ? KIND.none : report.kind(frame);
	if (kind > KIND.inlined)
		return kind === KIND.none && by !== "line" ? UNKNOWN : "kind " + kind;
	const object = report.text(f.object[frame]);
	if (by === "object")
		return object || UNKNOWN;
	if (by === "function")
		return f.function[frame] >= 0 ? report.strings[f.function[frame]] : object ? UNKNOWN + " in " + object
			: UNKNOWN;
	const file = f.file[frame] >= 0 ? report.strings[f.file[frame]] : object;
	if (by === "file" || f.line[frame])
		return by === "file" ? file || UNKNOWN : file + ":" + f.line[frame];
	return file + "\n" + report.text(f.function[frame]) + "\n" + object + "+" + f.offset[frame];
}

// For each frame the number of its group, and the groups' keys.
export class FrameGroups {
	constructor(report, by) {
		const ids = new Map();
		this.by = by;
		this.keys = [];
		this.ofFrame = new Int32Array(report.nrFrames + 1);
		for (let frame = -1; frame < report.nrFrames; frame++) {
			const key = frameKey(report, frame, by);
			if (!ids.has(key))
				ids.set(key, this.keys.push(key) - 1);
			this.ofFrame[frame + 1] = ids.get(key);
		}
	}

	of(frame) { return this.ofFrame[frame + 1]; }
}

function nameSite(report, site) {
	const { by, frame, key } = site;
	if (frame < 0 || report.kind(frame) > KIND.inlined) {
		site.name = site.full = report.label(frame);
		site.place = "";
	} else if (by === "file" || by === "object") {
		site.full = site.place = visible(key);
		site.name = baseName(site.full);
	} else if (by === "function" && report.frames.function[frame] < 0) {
		site.full = visible(key);
		site.name = visible("in " + baseName(report.text(report.frames.object[frame])) || UNKNOWN);
		site.place = visible(report.text(report.frames.object[frame]));
	} else {
		site.name = report.label(frame);
		site.full = report.fullName(frame);
		site.place = report.place(frame);
	}
}

// A label that no other site has: its last words, with the line where several have the same.
function tagSites(report, sites) {
	const seen = new Map(), short = s => s.by === "line" || s.by === "function"
		? s.name.split("::").slice(-2).join("::") : s.name;
	for (const s of sites)
		seen.set(short(s), (seen.get(short(s)) || 0) + 1);
	for (const s of sites)
		s.tag = short(s) + (seen.get(short(s)) > 1 && report.frames.line[s.frame] ? ":" +
			report.frames.line[s.frame] : "");
}

// All sites of the report, without their numbers.
export function groupSites(report, groups) {
	const sites = new Array(groups.keys.length);
	for (let t = 0; t < report.nrTracebacks; t++) {
		const frame = report.siteFrame(t), id = groups.of(frame);
		const site = sites[id] ||= { id: hashText(groups.keys[id]), by: groups.by, group: id,
			key: groups.keys[id], frame, tracebacks: [] };
		site.tracebacks.push(t);
	}
	const list = sites.filter(Boolean);
	for (const site of list)
		nameSite(report, site);
	tagSites(report, list);
	return list;
}

// Sums of each site at each snapshot. Estimates are rounded once, as the engine does.
export function sumSites(sites, columns) {
	for (const site of sites) {
		site.bytes = columns.map(c => Math.round(site.tracebacks.reduce((sum, t) => sum + c.bytes[t], 0)));
		site.blocks = columns.map(c => Math.round(site.tracebacks.reduce((sum, t) => sum + c.blocks[t], 0)));
	}
}

// Sums by group if a block counts for every frame of its traceback from the site on, once per call in a
// recursion: `stats --cumulative`. Returns columns by group.
export function sumCumulative(report, groups, column) {
	const { parent, nodeFrame, site } = report, inside = new Float64Array(parent.length),
		out = new Float64Array(groups.keys.length);
	for (let t = 0; t < site.length; t++)
		if (site[t])
			inside[site[t]] += column[t];
		else
			out[groups.of(-1)] += column[t]; // no traceback
	for (let n = parent.length - 1; n > 0; n--) {
		out[groups.of(nodeFrame[n])] += inside[n];
		inside[parent[n]] += inside[n];
	}
	return out;
}

// Frames that no traceback begins with: they have rows in a cumulative table only.
export function callerSites(report, groups, sites) {
	const known = new Set(sites.map(s => s.group)), out = [];
	for (let frame = 0; frame < report.nrFrames; frame++) {
		const id = groups.of(frame);
		if (known.has(id))
			continue;
		known.add(id);
		const site = { id: hashText(groups.keys[id]), by: groups.by, group: id, key: groups.keys[id], frame,
			tracebacks: [], bytes: report.snapshots.map(() => 0), blocks: report.snapshots.map(() => 0),
			isCaller: true };
		nameSite(report, site);
		site.tag = site.name;
		out.push(site);
	}
	return out;
}

// One site for each value of a facet, with its sums at each snapshot of what the filters keep.
export function facetSites(report, facet, keep) {
	const all = Array.from({ length: report.nrTracebacks }, (_, t) => t), nr = report.snapshots.length;
	const sites = facet.values.map(value => {
		const name = facet.label(value);
		return { id: hashText(facet.id + value), by: facet.id, facet, value, frame: -1, tracebacks: all, name,
			full: facet.title + " " + name,
			place: "", tag: name, bytes: new Array(nr).fill(0), blocks: new Array(nr).fill(0) };
	});
	const ofValue = new Map(sites.map(site => [site.value, site]));
	const bytesNow = new Float64Array(report.nrRows), blocksNow = new Float64Array(report.nrRows);
	for (const [s, { row, columns: c }] of report.snapshots.entries()) {
		for (let i = 0; i < row.length; i++) {
			bytesNow[row[i]] = c.size[i] + (c.size_beyond?.[i] || 0);
			blocksNow[row[i]] = c.count[i] + (c.count_beyond?.[i] || 0);
		}
		for (let at = 0; at < report.nrRows; at++) {
			const key = report.rowKey[at], site = ofValue.get(facet.ofKey[key]);
			if (keep && !keep[key])
				continue;
			site.bytes[s] += bytesNow[at];
			site.blocks[s] += blocksNow[at];
		}
	}
	for (const site of sites) {
		site.bytes = site.bytes.map(Math.round);
		site.blocks = site.blocks.map(Math.round);
	}
	return sites;
}
