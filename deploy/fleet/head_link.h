// Asynchronous connection of an operator's program to the head. It connects again by itself, and
// resolves the address each time, because a restarted head may have another one.
// Thread: the event loop.
// Errors: of queries: unavailable without a connection, timed_out, or the head's refusal.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "protocol/messages/tools.h"
#include "protocol/program/cluster_files.h"
#include "transport/bus/bus.h"
#include "transport/loop/event_loop.h"
#include "transport/net/name_resolver.h"

namespace mobula::internal::fleet {

struct HeadAddress {
  std::string address;
  std::optional<KeyFile> key{};  // absent: a head without keys
};

class HeadLink {
 public:
  using Find = std::function<Result<HeadAddress>()>;
  using Reply = std::function<void(const Result<std::string>&)>;

  // `connected` is called after each connection, `lost` with the reason after each loss and each
  // failed attempt.
  HeadLink(EventLoop& loop, Find find, std::function<void()> connected,
           std::function<void(const std::string&)> lost);
  HeadLink(const HeadLink&) = delete;
  HeadLink& operator=(const HeadLink&) = delete;
  ~HeadLink();

  // Begins to connect.
  void open();
  // Sends a query. `reply` is called exactly once, and never before this returns.
  void query(const std::string& verb, const std::string& kind, const std::string& argument,
             Duration timeout, Reply reply);

  bool is_connected() const { return connected_; }
  // The head's address and key of the latest attempt.
  const std::optional<HeadAddress>& head() const { return head_; }

 private:
  struct Query {
    std::string verb;
    Time deadline;
    Reply reply;
  };

  Result<void> connect();
  Result<void> connect_to(const std::string& address);
  void receive(std::span<const std::byte> bytes);
  void lose(const std::string& why);
  void close();
  void check_deadlines();
  void arm();

  EventLoop& loop_;
  const Find find_;
  const std::function<void()> on_connected_;
  const std::function<void(const std::string&)> on_lost_;
  AllowTable nobody_;  // accepts no connections
  std::optional<HeadAddress> head_;
  std::unique_ptr<NameResolver> resolver_;
  std::unique_ptr<Bus> bus_;
  PeerHandle peer_;
  bool connected_ = false;
  std::uint64_t last_query_ = 0;
  std::map<std::uint64_t, Query> queries_;
  Timer retry_;
  Timer deadlines_;
};

}  // namespace mobula::internal::fleet
