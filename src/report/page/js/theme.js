// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Colours and fonts of the canvases, read from the style sheet, so that light and dark are in one place.

const NAMES = ["bg", "panel", "line", "line2", "ink", "ink2", "ink3", "accent", "box", "box2", "library", "grow",
	"shrink", "hit", "rss",
	"other", "hatch", "select"];

export const theme = { tops: [] };

export function readTheme() {
	const style = getComputedStyle(document.documentElement), read = name =>
		style.getPropertyValue("--" + name).trim();
	for (const name of NAMES)
		theme[name] = read(name);
	theme.tops = [1, 2, 3, 4, 5, 6].map(i => read("top" + i));
	theme.mono = read("mono");
	theme.sans = read("sans");
	theme.dark = document.documentElement.dataset.theme === "dark";
}

// The theme that the reader chose before, else the system's theme.
export function preferredTheme() {
	try {
		const kept = localStorage.getItem("allocsnap-theme");
		if (kept === "light" || kept === "dark")
			return kept;
	} catch { /* a page from a file may have no storage */ }
	return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export function keepTheme(name) {
	try {
		localStorage.setItem("allocsnap-theme", name);
	} catch { /* as above */ }
}

const channels = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));

const mixes = new Map();

// The colour that is `share` of the way from a to b.
export function mix(a, b, share) {
	const key = a + b + share;
	let out = mixes.get(key);
	if (!out) {
		const x = channels(a), y = channels(b);
		out = "#" + x.map((v, i) => Math.round(v + (y[i] - v) * share).toString(16).padStart(2, "0")).join("");
		mixes.set(key, out);
	}
	return out;
}

const luminance = hex => channels(hex).map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92
	: ((v + 0.055) / 1.055) ** 2.4)
	.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);

const inks = new Map();

// Black or white, whichever is read better on the colour.
export function inkOn(hex) {
	if (!inks.has(hex))
		inks.set(hex, luminance(hex) > 0.179 ? "#14171a" : "#ffffff");
	return inks.get(hex);
}

// The colour of a change from gone (−1) over unchanged (0) to new (1), in five steps each way. Small ones are pale.
export function shadeOfChange(change) {
	const strength = Math.ceil(Math.abs(change) * 5 - 0.1) / 5;
	return strength <= 0 ? theme.box2 : mix(theme.box2, change > 0 ? theme.grow : theme.shrink,
		0.12 + 0.88 * strength ** 1.6);
}

// Makes the canvas as large as its element in device pixels, and clears it.
export function clearCanvas(canvas) {
	const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
	if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
	}
	const c = canvas.getContext("2d");
	c.setTransform(ratio, 0, 0, ratio, 0, 0);
	c.clearRect(0, 0, width, height);
	return { c, width, height };
}

// Draws a line through the points; the caller strokes or fills it.
export function tracePath(c, points) {
	c.beginPath();
	points.forEach(([x, y], i) => i ? c.lineTo(x, y) : c.moveTo(x, y));
}
