// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Numbers and times as text: three significant digits, binary units, a true minus sign.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

// The number and its unit, e.g. ["13.5", "MiB"].
export function splitBytes(bytes) {
	let value = Math.abs(bytes), unit = 0;
	while (value >= 999.5 && unit < UNITS.length - 1) {
		value /= 1024;
		unit++;
	}
	const digits = unit === 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
	return [(bytes < 0 ? "\u2212" : "") + value.toFixed(digits), UNITS[unit]];
}

export const formatBytes = bytes => splitBytes(bytes).join("\u00a0");

export function formatCount(n) {
	const text = Math.round(Math.abs(n)).toString().replace(/\B(?=(\d{3})+$)/g, ",");
	return (n < 0 ? "\u2212" : "") + text;
}

// All digits, as `--json` has them: for titles and for copied text.
export const formatExact = (n, unit) => formatCount(n) + (unit === "bytes" ? " bytes" : " blocks");

export const formatSigned = (n, write) => (n > 0 ? "+" : "") + write(n);

export const formatMeasure = unit => unit === "bytes" ? formatBytes : formatCount;

// [low, high] of an interval in one unit: "12.3 – 14.9 MiB".
export function formatInterval([low, high], unit, sign) {
	const plus = n => sign && n > 0 ? "+" : "";
	if (high === Infinity)
		return low === -Infinity ? "too few samples" : "at least " + formatCount(low);
	if (unit !== "bytes")
		return plus(low) + formatCount(low) + " – " + plus(high) + formatCount(high);
	const [a, u] = splitBytes(low), [b, v] = splitBytes(high);
	return plus(low) + a + (u === v || low === 0 ? "" : "\u00a0" + u) + " – " + plus(high) + b + "\u00a0" + v;
}

export function formatPercent(part, whole) {
	if (!whole)
		return "–";
	const p = 100 * part / whole;
	if (p < 100 && p >= 99.95)
		return ">99.9\u00a0%";
	return (p > 0 && p < 0.1 ? "<0.1" : p.toFixed(Math.abs(p) < 9.95 ? 1 : 0)) + "\u00a0%";
}

const two = n => String(n).padStart(2, "0");

// UTC.
export function formatClock(ms, seconds = true) {
	const d = new Date(ms);
	return two(d.getUTCHours()) + ":" + two(d.getUTCMinutes()) + (seconds ? ":" + two(d.getUTCSeconds()) : "");
}

export const formatDate = ms => new Date(ms).toISOString().slice(0, 10);

export function formatDuration(ms) {
	const s = Math.round(ms / 1000);
	if (s < 1)
		return Math.round(ms) + "\u00a0ms";
	if (s < 60)
		return s + "\u00a0s";
	if (s < 3600)
		return Math.floor(s / 60) + "\u00a0min" + (s % 60 ? " " + s % 60 + "\u00a0s" : "");
	if (s < 86400)
		return Math.floor(s / 3600) + "\u00a0h " + two(Math.floor(s % 3600 / 60)) + "\u00a0min";
	return Math.floor(s / 86400) + "\u00a0d " + Math.floor(s % 86400 / 3600) + "\u00a0h";
}

// CPU time, as `allocsnap show` has it.
export function formatSeconds(ns) {
	const ms = ns / 1e6;
	return ms < 999.5 ? ms.toFixed(ms < 9.95 ? 1 : 0) + "\u00a0ms"
		: (ms / 1000).toFixed(ms < 9995 ? 2 : ms < 99950 ? 1 : 0) + "\u00a0s";
}

// As `allocsnap leaks` has it.
export const formatLeakRate = perSecond => formatBytes(60 * perSecond) + "/min";
