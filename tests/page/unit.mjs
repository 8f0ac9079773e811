// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// The page's modules that need no browser. Run by tests/page/run.py.
import assert from "node:assert/strict";
import { test } from "node:test";

const PAGE = new URL(process.env.PAGE_JS + "/", "file:///"); // a copy of src/report/page/js/
const { formatBytes, formatCount, formatDuration, formatInterval, formatLeakRate, formatPercent,
	formatSigned } = await import(PAGE.href + "numbers.js");
const { fitName, shortName, textMatcher, visible } = await import(PAGE.href + "names.js");
const { Leaks, leakingSites } = await import(PAGE.href + "leaks.js");
const { sizeClassName } = await import(PAGE.href + "facets.js");
const { hashText } = await import(PAGE.href + "sites.js");
const { Intervals } = await import(PAGE.href + "intervals.js");
const { costText, rssOf } = await import(PAGE.href + "trust.js");
const { Tree } = await import(PAGE.href + "tree.js");

const plain = text => text.replace(/\u00a0/g, " ");

test("functions are known by short names", () => {
	for (const [full, short] of [
		["checkout::Receipts::render[abi:cxx11](checkout::Order const&)", "checkout::Receipts::render"],
		["void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)",
			"std::vector<…>::_M_realloc_insert<…>"],
		["std::operator+<char, std::char_traits<char> >(char const*)", "std::operator+<…>"],
		["a::B::operator<<(std::ostream&)", "a::B::operator<<"],
		["a::B::operator()(int) const::{lambda(int)#2}::operator()(int) const",
			"a::B::operator()::λ2::operator()"],
		["(anonymous namespace)::f(int)", "{anon}::f"],
		["operator new(unsigned long)", "operator new"],
		["llvm::User::operator new(unsigned long, unsigned int)", "llvm::User::operator new"],
		["a::C::operator->() const", "a::C::operator->"],
		["<module>", "<module>"],
		["<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter",
			"<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter"],
		["_PyBytes_FromSize", "_PyBytes_FromSize"],
		["evil\u202egnp.exe", "evil\\u202egnp.exe"],
		["</script><img src=x>", "</script><…>"],
		["two words", "two words"],
	])
		assert.equal(shortName(full), short);
	assert.equal(visible("\u001b[31m"), "\\u001b[31m");
});

test("names lose what says least", () => {
	assert.equal(fitName("checkout::Service::handle", 17), "…Service::handle");
	assert.equal(fitName("libLLVM-14.so.1+0x1f388cd", 14), "…+0x1f388cd");
	assert.equal(fitName("averylongname", 6), "avery…");
});

test("a search is a part of a name, or a pattern", () => {
	assert.ok(textMatcher("cache")("shop::Cache::put"));
	assert.ok(textMatcher("/^shop::.*put$/")("shop::Cache::put"));
	assert.ok(!textMatcher("/(/")("(anything)"), "a broken pattern matches nothing");
	assert.ok(textMatcher("a.c")("a.c") && !textMatcher("a.c")("abc"));
});

test("RSS is the sum of its parts, of blocks and of pages", () => {
	const pages = { resident_known: true, traced: 40, older: 8, inherited: 0, by_kernel: 1, unattributed: 2, files: 16, shared: 4,
		anonymous: 51, zero: 100 };
	assert.deepEqual([rssOf({ pages }).total, ...rssOf({ pages }).parts.map(p => p.value)], [71, 40, 8, 20, 3]);
	assert.equal(rssOf({ pages: { resident_known: false } }), undefined, "what was resident is not known");
	assert.equal(rssOf({ rss: { total: 7, traced: 7 }, pages }).total, 7);
});

test("numbers have three digits", () => {
	assert.deepEqual([0, 999, 1000, 1023, 1024, 10 * 1048576, 1e15].map(n => plain(formatBytes(n))),
		["0 B", "999 B", "0.98 KiB", "1.00 KiB", "1.00 KiB", "10.0 MiB", "909 TiB"]);
	assert.equal(plain(formatSigned(-1536, formatBytes)), "\u22121.50 KiB");
	assert.equal(formatCount(1234567), "1,234,567");
	assert.deepEqual([formatPercent(1, 3000), formatPercent(1, 3), formatPercent(0, 0),
		formatPercent(9999, 10000)].map(plain),
		["<0.1 %", "33 %", "–", ">99.9 %"]);
	assert.deepEqual([300, 5000, 115000, 7500000, 200000000].map(n => plain(formatDuration(n))),
		["300 ms", "5 s", "1 min 55 s", "2 h 05 min", "2 d 7 h"]);
	assert.deepEqual([2 ** 17, 100, -100].map(n => plain(formatLeakRate(n))),
		["7.50 MiB/min", "5.86 KiB/min", "\u22125.86 KiB/min"]);
	assert.equal(plain(formatInterval([-1024, 3 << 20], "bytes", true)), "−1.00 KiB – +3.00 MiB");
	assert.equal(formatInterval([5, 1200], "blocks"), "5 – 1,200");
});

test("cost is what show says", () => {
	const cost = { cpu_ns: 153e6, cost_ns: 122e6, wall_ns: 2.54e9, slowdown: 4.93, is_estimated: false };
	for (const [more, text] of [
		[{}, "4.8 % of one core (122 ms in 2.54 s); the program's own work: 31 ms of CPU time, ×4.9 while recorded"],
		[{ is_estimated: true, cpu_ns: 1622e6, slowdown: 1.08 },
			"4.8 % of one core (about 122 ms in 2.54 s); the program's own work: 1.50 s of CPU time, ×1.1 while recorded"],
		[{ wall_ns: 3600e9, cpu_ns: 134e6, slowdown: 11.2 },
			"below 0.1 % of one core (122 ms in 3600 s); the program's own work: 12 ms of CPU time, ×11 while recorded"],
		[{ wall_ns: undefined, cpu_ns: 100e6, slowdown: undefined }, "122 ms; the program's own work: 0.0 ms"],
		[{ cpu_ns: 0, cost_ns: 0, slowdown: undefined }, "the program has not run since"],
	])
		assert.equal(plain(costText({ ...cost, ...more })), text);
});

test("size classes are called as in --group-by size-class", () => {
	assert.deepEqual([0, 1, 10, 11, 21].map(sizeClassName), ["0 B", "[1 B, 2 B)", "[512 B, 1 KiB)",
		"[1 KiB, 2 KiB)", "[1 MiB, 2 MiB)"]);
});

test("verdicts belong to the sites of their tracebacks", () => {
	const line = (verdict, rate, traceback) => ({ verdict, bytes_per_s: rate, since_ns: 4e9, traceback, reason: verdict });
	const row = (verdict, ...lines) => ({ verdict, bytes_per_s: 9, least_bytes_per_s: 8, since_ns: 4e9, lines });
	const report = { nrTracebacks: 4, siteFrame: t => t, leaks: { begin_ns: 1e9, observed_ns: 40e9, rows: [
		row("leaks", line("leaks", 5, 2), line("leaks", 4, 3)), row("may-leak", line("may-leak", 7, 1)),
		row("grows", line("grows", 9, 0)), row("leaks", line("leaks", 9, 4294967295))] } };
	const leaks = new Leaks(report, ns => ns / 1e6), byFrame = { of: frame => frame },
		sites = [0, 1, 2, 3].map(group => ({ group }));
	leaks.mark(report, byFrame, sites);
	assert.deepEqual(sites.map(s => [s.leak.word, s.leak.perSecond]), [["grows", 9], ["MAY LEAK", 7], ["LEAKS", 5],
		["LEAKS", 4]]);
	assert.deepEqual(leakingSites(sites).map(s => s.group), [2, 3, 1], "what grows is no leak");
	assert.deepEqual(leaks.found[0].since, { ms: 5000, isAlways: false });
	assert.equal(leaks.rows.length, 3, "a traceback that the file does not have");
	const file = { group: 0 }, byFile = { of: () => 0 };
	leaks.mark(report, byFile, [file]);
	assert.deepEqual([file.leak.word, file.leak.perSecond], ["LEAKS", 16], "the larger part, and all rates");
	for (const [rows, wanted] of [
		[[["may-leak", 30], ["leaks", 1]], ["MAY LEAK", 31, "may-leak"]],
		[[["leaks", 30], ["may-leak", 20], ["may-leak", 15]], ["MAY LEAK", 65, "may-leak"]],
		[[["may-leak", 30], ["leaks", 20], ["leaks", 10]], ["LEAKS", 60, "leaks"]],
		[[["may-leak", 3], ["grows", 90]], ["MAY LEAK", 3, "may-leak"]],
		[[["grows", 4], ["grows", 3], ["settled", 0]], ["grows", 7, "grows"]],
	]) {
		const both = new Leaks({ ...report, leaks: { ...report.leaks, rows: rows.map(([verdict, rate]) =>
			row(verdict, line(verdict, rate, 0))) } }, ns => ns / 1e6);
		both.mark(report, byFile, [file]);
		assert.deepEqual([file.leak.word, file.leak.perSecond, file.leak.reason, file.leak.order], [...wanted, 0]);
	}
	const none = new Leaks({ nrTracebacks: 0, leaks: null }, ns => ns);
	assert.ok(!none.isAsked && !none.found.length && !none.unjudged);
});

test("links name sites by what they are called", () => {
	assert.equal(hashText("src/cart.c:31"), hashText("src/cart.c:31"));
	assert.notEqual(hashText("src/cart.c:31"), hashText("src/cart.c:32"));
});

// 100 blocks of 64 bytes, one in 128 of which is a sample: 35 at A; 30 of them still live at B, and 10 new ones.
test("the interval of a change knows which samples are in both snapshots", () => {
	const w = 128, s = 64, rows = n =>
		({ size: [n * s], count: [n], size_beyond: [n * s * (w - 1)], count_beyond: [n * (w - 1)],
		size_variance: [n * s * s * w * (w - 1)], count_variance: [n * w * (w - 1)],
		size_covariance: [n * s ** 3 * w * (w - 1) ** 2], count_covariance: [n * w * (w - 1) ** 2] });
	const join = (p, q) => Object.fromEntries(Object.keys(p).map(k => [k, [...p[k], ...q[k]]]));
	const at = [join(rows(35), rows(0)), join(rows(30), rows(10)), join(rows(35), rows(0))];
	const report = { firstRow: [0, 2], rowKey: [0, 1], rowsAt: i => at[i], snapshots: [{}, {}, {}] },
		intervals = new Intervals(report);
	const before = Uint8Array.of(1, 0), known = intervals.change([0], 0, 1, "bytes", null, before),
		unknown = intervals.change([0], 0, 1, "bytes", null, null);
	assert.ok(known[1] - known[0] < 0.6 * (unknown[1] - unknown[0]), "common samples add no error");
	assert.equal(intervals.change([0], 0, 2, "bytes", null, before), null, "nothing came or went");
	const [low, high] = intervals.held([0], 0, "blocks", null);
	assert.ok(low > 35 && low < 35 * w && high > 35 * w);
});

test("growth in the tree does not cancel out, and merges by function", () => {
	const report = { parent: Int32Array.of(0, 0, 1, 1), nodeFrame: Int32Array.of(-1, 0, 1, 2),
		leaf: Int32Array.of(2, 3), site: Int32Array.of(2, 3),
		boxOf: [0, 1, 2], boxFrame: [0, 1, 2], frames: { line: [1, 2, 3], function: [0, 1, 2] }, isLibrary: f =>
			f === 2,
		siteFrame: t => t + 1, lineBox: f => 10 + f };
	const tree = new Tree(report, "root", false), fill = measure => {
		tree.fill({ before: Float64Array.of(10, 10), after: Float64Array.of(15, 3), measure,
			tints: Int8Array.of(-1, -1), nrTints: 0 });
		return tree.width[0];
	};
	assert.deepEqual([fill("held"), fill("grown"), fill("shrunk")], [18, 5, 7]);
	assert.equal(tree.nr, 4);
	const folded = new Tree(report, "root", true);
	folded.fill({ before: null, after: Float64Array.of(15, 3), measure: "held", tints: Int8Array.of(-1, -1),
		nrTints: 0 });
	assert.equal(folded.width[0], 18, "a traceback that ends in a library is still counted");
});
