// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * shopcache [LOGINS]: a service with a cache of sessions. Four threads serve LOGINS (25) logins a second each. The
 * cache evicts the oldest session. A second index, by e-mail address, keeps each session for ever: the planted leak.
 *
 * The blocks of a session are allocated by the lines between the marks: they are what leaks.
 */
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace shop {

struct Item {
	std::string sku, title;
	double price;
};

struct Session {
	std::string id, email;
	std::vector<Item> basket;
	std::map<std::string, std::string> attributes;
};

using SessionPtr = std::shared_ptr<Session>;

template <typename Key, typename Value>
class LruCache {
public:
	explicit LruCache(size_t capacity) : capacity_(capacity) {}

	void put(const Key &key, Value value)
	{
		std::lock_guard<std::mutex> lock(mutex_);
		order_.push_front(key);
		values_[key] = { std::move(value), order_.begin() };
		while (values_.size() > capacity_) {
			values_.erase(order_.back());
			order_.pop_back();
		}
	}

	bool get(const Key &key, Value *value)
	{
		std::lock_guard<std::mutex> lock(mutex_);
		auto found = values_.find(key);
		if (found == values_.end())
			return false;
		order_.splice(order_.begin(), order_, found->second.second);
		*value = found->second.first;
		return true;
	}

private:
	size_t capacity_;
	std::mutex mutex_;
	std::list<Key> order_;
	std::unordered_map<Key, std::pair<Value, typename std::list<Key>::iterator>> values_;
};

class SessionStore {
public:
	SessionStore() : by_id_(200) {}

	SessionPtr login(const std::string &id, const std::string &email)
	{
		SessionPtr session;
		if (by_id_.get(id, &session))
			return session;
		session = make_session(id, email); // planted
		by_id_.put(id, session);
		index_by_email(session); // planted
		return session;
	}

private:
	// planted: begin
	static SessionPtr make_session(const std::string &id, const std::string &email)
	{
		auto session = std::make_shared<Session>();
		session->id = id;
		session->email = email;
		for (int i = 0; i < 4; i++)
			session->basket.push_back(Item{ "SKU-" + std::to_string(i) + "-" + id,
							"A product with a rather long title, number " + std::to_string(i),
							9.99 });
		session->attributes["user-agent"] = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36";
		return session;
	}

	void index_by_email(const SessionPtr &session)
	{
		std::lock_guard<std::mutex> lock(mutex_);
		by_email_.emplace(session->email + "#" + session->id, session);
	}
	// planted: end

	LruCache<std::string, SessionPtr> by_id_;
	std::mutex mutex_;
	std::unordered_map<std::string, SessionPtr> by_email_;
};

// Temporary strings, as in every request: they are freed at once.
std::string render(const Session &session)
{
	std::string html;
	for (const auto &item : session.basket)
		html += "<li>" + item.title + "</li>";
	return html;
}

} // namespace shop

static std::atomic<size_t> rendered;

static void serve(shop::SessionStore *store, unsigned int seed, int logins)
{
	std::mt19937 random(seed);

	for (;;) {
		std::string user = std::to_string(random());
		auto session = store->login("user-session-" + user, "customer" + user + "@example.org");
		rendered += shop::render(*session).size();
		std::this_thread::sleep_for(std::chrono::microseconds(1000000 / logins));
	}
}

int main(int argc, char **argv)
{
	int logins = argc > 1 ? atoi(argv[1]) : 25;
	shop::SessionStore store;
	std::vector<std::thread> threads;

	for (unsigned int seed = 1; seed <= 4; seed++)
		threads.emplace_back(serve, &store, seed, logins > 0 ? logins : 1);
	for (auto &thread : threads)
		thread.join();
}
