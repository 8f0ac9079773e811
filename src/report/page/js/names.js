// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Short names of functions and files. All names come from a foreign process: they are text, never markup.

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

// Shows control characters, and characters that turn the direction of text, as what they are.
export const visible = text => text.replace(HIDDEN, c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

const OPERATORS = ["()", "[]", "->*", "->", "<=>", "<<=", ">>=", "<<", ">>", "<=", ">=", "<", ">"];
const CLOSING = { "(": ")", "<": ">", "{": "}", "[": "]" };

// The index of the bracket that closes the one at `at`; the end of the text if none does.
function closingBracket(text, at) {
	const open = text[at], close = CLOSING[open];
	for (let depth = 0, i = at; i < text.length; i++) {
		if (text[i] === open)
			depth++;
		else if (text[i] === close && text[i - 1] !== "-" && --depth === 0)
			return i;
	}
	return text.length - 1;
}

// The operator's name that begins at `at`, or "".
function operatorAt(text, at) {
	if (!text.startsWith("operator", at) || /\w/.test(text[at - 1] || ""))
		return "";
	const rest = text.slice(at + 8), sign = OPERATORS.find(o => rest.startsWith(o));
	if (sign)
		return "operator" + sign;
	const word = /^ (new|delete)(\[\])?/.exec(rest);
	return word ? "operator" + word[0] : "";
}

// 'void a::B<int, std::string>::f(char const*)' becomes 'a::B<…>::f', without return type, parameters and template
// arguments. A '<' that opens a name stays, as in '<module>' and '<T as Trait>::f'; so does a space in a name without a
// call.
function shorten(full) {
	const text = full.replace(/\(anonymous namespace\)/g, "{anon}").replace(/\[abi:\w+\]/g, "")
		.replace(/std::(__cxx11|__1)::/g, "std::");
	const isCall = text.includes("(");
	let out = "";
	for (let i = 0; i < text.length; i++) {
		const op = text[i] === "o" ? operatorAt(text, i) : "";
		if (op) {
			out += op;
			i += op.length - 1;
		} else if (text[i] === "<") {
			const end = closingBracket(text, i);
			out += out && !out.endsWith("::") ? "<…>" : text.slice(i, end + 1);
			i = end;
		} else if (text[i] === "{") {
			const end = closingBracket(text, i), inside = text.slice(i + 1, end);
			out += inside.startsWith("lambda") ? "λ" + (/#(\d+)$/.exec(inside)?.[1] || "") : "{" + inside +
				"}";
			i = end;
		} else if (text[i] === "(") {
			const end = closingBracket(text, i);
			if (!/^( const)?::/.test(text.slice(end + 1)))
				break;
			i = end + (text.startsWith(" const", end + 1) ? 6 : 0);
		} else if (text[i] === " " && isCall) {
			out = "";
		} else {
			out += text[i];
		}
	}
	return visible(out || full);
}

const shortNames = new Map();

export function shortName(full) {
	let name = shortNames.get(full);
	if (name === undefined)
		shortNames.set(full, name = shorten(full));
	return name;
}

export const baseName = path => path.slice(path.lastIndexOf("/") + 1);

// Cuts from the left at '::', because the last word says most; a name that is still too long loses its end.
export function fitName(name, chars) {
	if (name.length <= chars)
		return name;
	for (let at = name.indexOf("::"); at >= 0; at = name.indexOf("::", at + 2))
		if (name.length - at - 2 + 1 <= chars)
			return "…" + name.slice(at + 2);
	const offset = name.lastIndexOf("+0x"), last = name.includes("::") ? name.slice(name.lastIndexOf("::") + 2)
		: name;
	if (offset > 0 && name.length - offset + 1 <= chars)
		return "…" + name.slice(offset);
	return chars < 3 ? "" : last.slice(0, chars - 1) + "…";
}

// Whether a text matches a search: part of it, in any case; between slashes a regular expression.
export function textMatcher(query) {
	const pattern = /^\/(.+)\/$/.exec(query);
	if (pattern)
		try {
			const regex = new RegExp(pattern[1], "i");
			return text => regex.test(text);
		} catch {
			return () => false;
		}
	const low = query.toLowerCase();
	return text => text.toLowerCase().includes(low);
}
