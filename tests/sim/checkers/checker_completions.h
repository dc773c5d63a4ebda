// Invariant of subscriptions: each is reported exactly once, never before its object is ready, and
// in the step in which the object becomes ready. Shares no code with the table of the core.
// Thread: the simulator's only thread. Errors: World::violation, checker "completions".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "client/core/client_commands.h"
#include "client/core/client_events.h"

namespace mobula::internal::sim {

class Process;
class World;

class CompletionChecker {
 public:
  explicit CompletionChecker(World& world) : world_(world) {}

  // Makes a subscription to an object of this process. Its kind depends on its token.
  client::SubscribeObject subscribe(const Process& process, ObjectId object);
  // Requests that end the unreported subscriptions of this process to the object.
  std::vector<client::UnsubscribeObject> unsubscribe(const Process& process, ObjectId object);
  // The core is about to receive the request.
  void unsubscribed(const Process& process, const client::UnsubscribeObject& request);
  void reported(const Process& process, const client::ObjectReported& report);
  // After the core's step with these commands.
  void stepped(const Process& process, const std::vector<client::Command>& commands);
  void process_ended(const Process& process);

 private:
  struct Row {
    ProcessId process;
    client::SubscribeObject request;
  };
  void forget(const Process& process, ObjectId object, std::uint64_t token);
  static bool is_ready(const Process& process, const client::SubscribeObject& request);

  World& world_;
  std::uint64_t last_token_ = 0;
  std::map<std::uint64_t, Row> rows_;  // unreported subscriptions by token
  std::map<std::pair<ProcessId, ObjectId>, std::vector<std::uint64_t>> tokens_;  // keys of `rows_`
};

}  // namespace mobula::internal::sim
