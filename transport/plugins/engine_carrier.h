// Carrier of a library that is driven by one plugin thread, the engine: the queue of orders from
// the host's thread, and the mobula_carrier, which only queues orders and delivers the engine's
// reports from its inbox.
// Thread: the host's thread, except Orders, which is for any.
// Owner: the engine is shared and may outlive the carrier if its library does not end.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "transport/plugins/carrier_parts.h"

namespace mobula::plugins {

// An order from the host's thread to the engine.
struct Order {
  enum class What { connect, send, drop };
  What what{};
  std::uint64_t link = 0;
  Bytes bytes;  // an endpoint, or a message
};

// Queue of orders, and the number of unsent messages per link. Thread: any; the engine calls
// take().
class Orders {
 public:
  static constexpr std::size_t max_waiting = 64;  // messages per link

  Orders() : own_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (own_.get() < 0) throw std::runtime_error("no descriptors are left");
  }
  // Readable while orders are pending, and after stop(), until quiet().
  int descriptor() const { return own_.get(); }
  void quiet() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto drained = ::read(own_.get(), &count, sizeof count);
  }

  // Returns false if the link has reached its limit of unsent messages.
  bool put(Order order) {
    {
      const MutexLock lock(mutex_);
      if (order.what == Order::What::send && ++unsent_[order.link] > max_waiting) {
        --unsent_[order.link];
        return false;
      }
      orders_.push_back(std::move(order));
    }
    wake();
    return true;
  }
  std::deque<Order> take() {
    const MutexLock lock(mutex_);
    return std::exchange(orders_, {});
  }
  // sent(): one message of the link was sent. forget(): the link has no unsent messages any more.
  void sent(std::uint64_t link) {
    const MutexLock lock(mutex_);
    const auto at = unsent_.find(link);
    if (at != unsent_.end() && --at->second == 0) unsent_.erase(at);
  }
  void forget(std::uint64_t link) {
    const MutexLock lock(mutex_);
    unsent_.erase(link);
  }

  void stop() {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    wake();
  }
  bool stopping() {
    const MutexLock lock(mutex_);
    return stopping_;
  }
  void end() {
    const MutexLock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  // Returns true if the engine ends before `deadline`.
  bool ends_by(std::chrono::steady_clock::time_point deadline) {
    MutexLock lock(mutex_);
    while (!ended_ && changed_.wait_until(lock, deadline)) {
    }
    return ended_;
  }

 private:
  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(own_.get(), &one, sizeof one);
  }

  Handle own_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Order> orders_ MOBULA_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::size_t> unsent_ MOBULA_GUARDED_BY(mutex_);  // by link
  bool stopping_ MOBULA_GUARDED_BY(mutex_) = false;
  bool ended_ MOBULA_GUARDED_BY(mutex_) = false;
};

// The calls of the host's thread. table_of() builds the table of a plugin from it.
//
// An Engine is constructed from a shared Inbox and shared Orders. It provides `library` (its name),
// `max_message` (bytes), `max_endpoint` (bytes; an endpoint begins with its secret), endpoint(),
// next_link() for any thread, and run(). run() returns after Orders::stop() and calls Orders::end()
// last.
template <class Engine>
class EngineCarrier {
 public:
  EngineCarrier(const mobula_carrier_host& host, const std::string& /*listen*/)
      : host_(host), engine_(std::make_shared<Engine>(inbox_, orders_)) {
    thread_ = std::thread([engine = engine_] { engine->run(); });
  }
  ~EngineCarrier() {
    orders_->stop();
    if (orders_->ends_by(std::chrono::steady_clock::now() + end_timeout)) {
      thread_.join();
      return;
    }
    std::fprintf(stderr, "mobula: %s does not end; its thread and memory are left behind\n",
                 Engine::library);
    thread_.detach();
  }
  EngineCarrier(const EngineCarrier&) = delete;
  EngineCarrier& operator=(const EngineCarrier&) = delete;

  int descriptor() const { return inbox_->descriptor(); }
  std::string endpoint() const { return engine_->endpoint(); }
  std::uint64_t connect(const std::string& endpoint) {
    if (endpoint.size() <= Secret().size() || endpoint.size() > Engine::max_endpoint) {
      throw std::runtime_error(std::string("no endpoint of ") + Engine::library);
    }
    const std::uint64_t number = engine_->next_link();
    orders_->put({Order::What::connect, number, Bytes(endpoint.begin(), endpoint.end())});
    return number;
  }
  bool send(std::uint64_t link, const mobula_carrier_bytes* parts, std::size_t count) {
    Bytes message = joined(parts, count);
    if (message.empty() || message.size() > Engine::max_message) return false;
    return orders_->put({Order::What::send, link, std::move(message)});
  }
  void drop(std::uint64_t link) {
    if (dropped_.insert(link).second) orders_->put({Order::What::drop, link, {}});
  }
  void poll() {
    for (const News& each : inbox_->take()) {
      if (each.what == News::What::dropped) {
        dropped_.erase(each.link);
      } else if (dropped_.contains(each.link)) {
        continue;
      } else if (each.what == News::What::message) {
        host_.on_message(host_.host, each.link, each.bytes.data(), each.bytes.size());
      } else {
        host_.on_broken(host_.host, each.link,
                        std::string(each.bytes.begin(), each.bytes.end()).c_str());
      }
    }
  }

 private:
  static constexpr std::chrono::seconds end_timeout{8};

  const mobula_carrier_host host_;
  // Shared with the engine, as the next two members.
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  const std::shared_ptr<Orders> orders_ = std::make_shared<Orders>();
  const std::shared_ptr<Engine> engine_;
  std::thread thread_;
  std::set<std::uint64_t> dropped_;  // by the host, not yet by the engine
};

}  // namespace mobula::plugins
