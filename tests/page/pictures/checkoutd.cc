// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * checkoutd [RATE [SECONDS [LEAK_FROM]]]: an order service with more than 200 busy lines that allocate, for the pictures in
 * the documents. Four threads serve RATE (60) requests a second each. From second LEAK_FROM (42) on, one checkout in three
 * subscribes a listener to the audit trail, and nothing ever unsubscribes it. The listener keeps the order, its lines and
 * the receipt: the leak.
 */
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <unistd.h>
#include <variant>
#include <vector>

#define NOINLINE __attribute__((noinline))

using Clock = std::chrono::steady_clock;
static Clock::time_point started = Clock::now();
static double uptime() { return std::chrono::duration<double>(Clock::now() - started).count(); }

static double leak_from = 42;

namespace checkout {

struct Money { long cents; std::string currency; };
struct OrderLine { std::string sku, title; Money price; std::vector<std::string> options; };
struct Order {
	std::string id, customer, receipt;
	std::vector<OrderLine> lines;
	std::map<std::string, std::string> attributes;
};
using OrderPtr = std::shared_ptr<Order>;

namespace json {
struct Value;
using Object = std::map<std::string, std::unique_ptr<Value>>;
using Array = std::vector<std::unique_ptr<Value>>;
struct Value { std::variant<std::nullptr_t, double, std::string, Array, Object> is; };

class Parser {
public:
	std::unique_ptr<Value> parseOrder(std::mt19937 &rng) {
		auto root = std::make_unique<Value>();
		root->is = Object{};
		auto &o = std::get<Object>(root->is);
		o["customer"] = parseString("customer-" + std::to_string(rng() % 100000) + "@example.org");
		o["basket"] = parseArray(rng);
		o["headers"] = parseHeaders();
		return root;
	}
private:
	NOINLINE std::unique_ptr<Value> parseString(std::string text) {
		auto v = std::make_unique<Value>(); v->is = std::move(text); return v;
	}
	NOINLINE std::unique_ptr<Value> parseArray(std::mt19937 &rng) {
		auto v = std::make_unique<Value>(); v->is = Array{};
		for (int i = 0, n = 2 + rng() % 5; i < n; i++)
			std::get<Array>(v->is).push_back(
				parseString("SKU-" + std::to_string(rng() % 5000) + "-a-rather-long-article-number"));
		return v;
	}
	NOINLINE std::unique_ptr<Value> parseHeaders() {
		auto v = std::make_unique<Value>(); v->is = Object{};
		auto &o = std::get<Object>(v->is);
		o["user-agent"] = parseString("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)");
		o["accept-language"] = parseString("de-DE,de;q=0.9,en;q=0.8,fr;q=0.7,es;q=0.6");
		return v;
	}
};
} // namespace json

template <typename Key, typename Value, typename Hash = std::hash<Key>>
class LruCache {
public:
	explicit LruCache(size_t capacity) : capacity_(capacity) {}
	NOINLINE void put(const Key &key, Value value) {
		std::lock_guard<std::mutex> lock(mutex_);
		auto found = map_.find(key);
		if (found != map_.end()) { order_.erase(found->second.second); map_.erase(found); }
		order_.push_front(key);
		map_.emplace(key, std::make_pair(std::move(value), order_.begin()));
		while (map_.size() > capacity_) { map_.erase(order_.back()); order_.pop_back(); }
	}
	NOINLINE std::optional<Value> get(const Key &key) {
		std::lock_guard<std::mutex> lock(mutex_);
		auto it = map_.find(key);
		if (it == map_.end()) return std::nullopt;
		return it->second.first;
	}
private:
	size_t capacity_;
	std::mutex mutex_;
	std::list<Key> order_;
	std::unordered_map<Key, std::pair<Value, typename std::list<Key>::iterator>, Hash> map_;
};

class AuditTrail {                               // the leak: listeners are never removed
public:
	template <typename Listener> NOINLINE void subscribe(const std::string &topic, Listener &&listener) {
		std::lock_guard<std::mutex> lock(mutex_);
		listeners_[topic].emplace_back(std::forward<Listener>(listener));
	}
private:
	std::mutex mutex_;
	std::unordered_map<std::string, std::vector<std::function<void(const std::string &)>>> listeners_;
};

class Catalogue {                                // loaded at the start, then constant
public:
	NOINLINE void load(int n) {
		for (int i = 0; i < n; i++) {
			auto &p = products_["SKU-" + std::to_string(i) + "-a-rather-long-article-number"];
			p.title = "A product with a rather long title, number " + std::to_string(i);
			p.synonyms.reserve(4);
			for (int k = 0; k < 3; k++)
				p.synonyms.push_back("synonym " + std::to_string(k) + " of " + std::to_string(i));
			p.vector.resize(48);
			index(p.title, i);
		}
	}
	const std::string &title(const std::string &sku) { return products_[sku].title; }
private:
	struct Product { std::string title; std::vector<std::string> synonyms; std::vector<float> vector; };
	struct Node { std::map<char, std::unique_ptr<Node>> next; std::vector<int> hits; };
	NOINLINE void index(const std::string &word, int id) {
		Node *n = &root_;
		for (char c : word.substr(word.size() - 12)) {
			auto &m = n->next[c];
			if (!m)
				m = std::make_unique<Node>();
			n = m.get();
		}
		n->hits.push_back(id);
	}
	std::unordered_map<std::string, Product> products_;
	Node root_;
};

class Pricing {                                  // rolling windows: grows to its bound, then stays
public:
	NOINLINE void observe(const std::string &sku, double price) {
		std::lock_guard<std::mutex> lock(mutex_);
		auto &w = windows_[sku];
		w.push_back(price);
		if (w.size() > 64) w.pop_front();
	}
private:
	std::mutex mutex_;
	std::unordered_map<std::string, std::deque<double>> windows_;
};

class AccessLog {                                // a ring, rotated each 20 seconds: a saw tooth
public:
	NOINLINE void append(std::string line) {
		std::lock_guard<std::mutex> lock(mutex_);
		lines_.push_back(std::move(line));
		if (int(uptime()) / 20 != epoch_) {
			epoch_ = int(uptime()) / 20;
			lines_.clear();
			lines_.shrink_to_fit();
		}
	}
private:
	int epoch_ = 0;
	std::mutex mutex_;
	std::vector<std::string> lines_;
};

class Receipts {
public:
	NOINLINE static std::string render(const Order &o) {
		std::string html = "<html><body><h1>" + o.id + "</h1><ul>";
		for (const auto &l : o.lines) html += "<li>" + l.title + " " + std::to_string(l.price.cents) + "</li>";
		html.resize(html.size() + 700, '.');
		return html + "</ul></body></html>";
	}
};

namespace proto {
// A message of the shop's protocol: NAME, bytes, how many each thread keeps. Its decoder is a site of its own.
#define DECODER(name, nr_bytes, kept) \
	struct name { char bytes[nr_bytes]; }; \
	NOINLINE static void decode##name(std::mt19937 &rng) \
	{ \
		static thread_local std::vector<std::unique_ptr<name>> recent; \
		auto message = std::make_unique<name>(); \
		if (recent.size() < kept) \
			recent.push_back(std::move(message)); \
		else \
			recent[rng() % recent.size()] = std::move(message); \
	}

// DECODER(NAME, …) a line, for each kind of message; and then their names.
#include "messages.inc"

#undef DECODER
#define DECODER(name, nr_bytes, kept) &decode##name,
static void (*const decoders[])(std::mt19937 &) = {
#include "messages.inc"
};
}

class Service {
public:
	Service() : recent_(1500), tokens_(4000) { catalogue_.load(5000); }

	void handle(std::mt19937 &rng) {
		json::Parser parser;
		auto body = parser.parseOrder(rng);
		auto order = buildOrder(*body, rng);
		order->receipt = Receipts::render(*order);
		recent_.put(order->id, order);
		rememberToken(order->customer);
		log_.append("POST /checkout 200 " + order->id + " " + order->customer);
		for (int i = 0; i < 6; i++)
			proto::decoders[rng() % std::size(proto::decoders)](rng);
		if (uptime() > leak_from && served % 3 == 0) applyPromotion(order);
		served++;
	}
	std::atomic<long> served{0};

private:
	NOINLINE OrderPtr buildOrder(const json::Value &body, std::mt19937 &rng) {
		auto order = std::make_shared<Order>();
		const auto &o = std::get<json::Object>(body.is);
		order->id = "order-2026-11-22-" + std::to_string(rng());
		order->customer = std::get<std::string>(o.at("customer")->is);
		for (const auto &sku : std::get<json::Array>(o.at("basket")->is)) {
			OrderLine line;
			line.sku = std::get<std::string>(sku->is);
			line.title = catalogue_.title(line.sku);
			line.price = {long(rng() % 10000), "EUR"};
			line.options.push_back("gift wrapping with a card that says something nice");
			order->lines.push_back(std::move(line));
			pricing_.observe(order->lines.back().sku, double(order->lines.back().price.cents));
		}
		order->attributes["channel"] = "web-shop-europe-central-1";
		return order;
	}
	NOINLINE void rememberToken(const std::string &customer) {
		tokens_.put(customer, std::vector<unsigned char>(96));
	}
	NOINLINE void applyPromotion(const OrderPtr &order) {
		audit_.subscribe("promotion/" + order->attributes["channel"],
				 [order, receipt = order->receipt](const std::string &event) {
					 if (event == receipt)
						 abort();
				 });
	}

	Catalogue catalogue_;
	Pricing pricing_;
	AccessLog log_;
	AuditTrail audit_;
	LruCache<std::string, OrderPtr> recent_;
	LruCache<std::string, std::vector<unsigned char>> tokens_;
};
} // namespace checkout

static void worker(checkout::Service *service, unsigned seed, int rate) {
	std::mt19937 rng(seed);
	for (;;) {
		for (int i = 0; i < 4; i++) service->handle(rng);
		std::this_thread::sleep_for(std::chrono::microseconds(4 * 1000000 / rate));
	}
}

int main(int argc, char **argv) {
	int rate = argc > 1 ? atoi(argv[1]) : 60;    // requests per thread and second
	leak_from = argc > 3 ? atof(argv[3]) : leak_from;
	checkout::Service service;
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++) threads.emplace_back(worker, &service, 7 + i, rate);
	std::this_thread::sleep_for(std::chrono::seconds(argc > 2 ? atoi(argv[2]) : 1000000));
	_exit(0);
}
