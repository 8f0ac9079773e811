// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Elements of the page. Text goes in as text only: nothing here parses markup.

export const byId = id => document.getElementById(id);

// An element with attributes (`class`, `onclick`… as functions, `style` as an object of properties) and children.
export function element(tag, attributes, ...children) {
	const e = document.createElement(tag);
	for (const [name, value] of Object.entries(attributes || {}))
		if (name === "class")
			e.className = value;
		else if (name === "style")
			for (const [property, text] of Object.entries(value))
				e.style.setProperty(property, text);
		else if (name.startsWith("on"))
			e.addEventListener(name.slice(2), value);
		else if (value !== undefined && value !== null && value !== false)
			e.setAttribute(name, value === true ? "" : value);
	e.append(...children.filter(c => c !== null && c !== undefined && c !== false));
	return e;
}

export const swatch = (colour, big) =>
	element("b", { class: big ? "swatch big" : "swatch", style: { background: colour || "transparent" } });

// Rows of [name, value, colour]; a row without a value is a heading.
export function showTooltip(rows, event) {
	const tip = byId("tip");
	tip.hidden = !rows;
	if (!rows)
		return;
	tip.replaceChildren(...rows.map(([name, value, colour], i) => value === null
		? element("div", { class: i ? "tplace" : "tname" }, name)
		: element("div", { class: "trow" }, colour && swatch(colour), element("span", {}, name),
			element("b", {}, value))));
	const { width, height } = tip.getBoundingClientRect(), { clientX: x, clientY: y } = event;
	tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - width - 8)) + "px";
	tip.style.top = Math.max(4, y + 18 + height > innerHeight ? y - height - 12 : y + 18) + "px";
}

let noteTimer = 0;

// A line that goes away by itself.
export function showNote(text) {
	const note = byId("note");
	note.textContent = text;
	note.hidden = false;
	clearTimeout(noteTimer);
	noteTimer = setTimeout(() => note.hidden = true, 1800);
}

// Browsers without a clipboard for this page may still copy what is selected.
function copySelected(text) {
	const area = element("textarea", { class: "out" });
	area.value = text;
	document.body.append(area);
	area.select();
	const done = document.execCommand("copy");
	area.remove();
	return done;
}

export async function copyText(text) {
	try {
		await navigator.clipboard.writeText(text);
		showNote("Copied");
	} catch {
		showNote(copySelected(text) ? "Copied" : "The browser refuses to copy");
	}
}
