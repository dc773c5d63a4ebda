// UCX as a carrier of messages (mobula/transport_plugin.h): what the host's thread calls, in front of the engine.
#include <chrono>
#include <cstdio>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "mobula/transport_plugin.h"
#include "transport/plugins/ucx_engine.h"

namespace {

using namespace mobula::plugins;          // NOLINT: a library of its own
using namespace mobula::plugins::of_ucx;  // NOLINT

constexpr auto end_limit = std::chrono::seconds(8);

}  // namespace

struct mobula_carrier {
 public:
  mobula_carrier(const mobula_carrier_host& host, const std::string& /*listen*/)
      : host_(host), engine_(std::make_shared<Engine>(inbox_)) {
    thread_ = std::thread([engine = engine_] { engine->run(); });
  }
  ~mobula_carrier() {
    engine_->stop();
    if (engine_->ends_by(Clock::now() + end_limit)) {
      thread_.join();
      return;
    }
    std::fprintf(stderr, "mobula: UCX does not end; its thread and memory are left behind\n");
    thread_.detach();
  }
  mobula_carrier(const mobula_carrier&) = delete;
  mobula_carrier& operator=(const mobula_carrier&) = delete;

  int descriptor() const { return inbox_->descriptor(); }
  std::string endpoint() const { return engine_->endpoint(); }
  std::uint64_t connect(const std::string& endpoint) {
    if (endpoint.size() <= Secret().size())
      throw std::runtime_error("an endpoint of UCX is longer");
    const std::uint64_t number = engine_->next_link();
    engine_->order({Order::What::connect, number, Bytes(endpoint.begin(), endpoint.end())});
    return number;
  }
  bool send(std::uint64_t link, const mobula_carrier_bytes* parts, std::size_t count) {
    Bytes message = joined(parts, count);
    if (message.empty() || message.size() > max_message) return false;
    return engine_->order({Order::What::send, link, std::move(message)});
  }
  void drop(std::uint64_t link) {
    if (dropped_.insert(link).second) engine_->order({Order::What::drop, link, {}});
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
  const mobula_carrier_host host_;
  const std::shared_ptr<Inbox> inbox_ = std::make_shared<Inbox>();
  const std::shared_ptr<Engine> engine_;  // shared with its thread
  std::thread thread_;
  std::set<std::uint64_t> dropped_;  // by the host, and not yet by the engine
};

namespace {

constexpr mobula_transport_plugin table = table_of("ucx", max_message);

}  // namespace

const mobula_transport_plugin* mobula_open_transport_plugin(void) { return &table; }
