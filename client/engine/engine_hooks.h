// Options of ProcessEngine, and the callbacks for the owner of kept tensors.
// Thread: the engine's lock is held.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/time.h"
#include "client/core/client_options.h"
#include "protocol/messages/transfer_facts.h"
#include "protocol/recording/recorder.h"

namespace mobula::internal::client {

struct EngineOptions {
  ClientOptions core;
  std::string ticket;    // presented to executors
  RecordOptions record;  // recording of the core's inputs
  std::string record_role = "driver";
  Duration ring_idle = 30s;      // idle time after which rings to executors are closed
  Duration longest_spin = 50us;  // longest spin of a leader, unless the agent sets it
};

// Callbacks for the owner of registered tensors. All run with the lock held.
struct TensorHooks {
  std::function<void(ObjectId)> unneeded;
  std::function<void(const std::vector<ProcessId>&)>
      dead;  // these processes will never speak again
  std::function<TransfersReply(const TransfersRequest&)> asked;  // request of the head
  std::function<void()> head_back;                               // the head may be a new one
  // lost with the agent of the node; the store of its successor is empty
  std::function<void()> store_lost;
  // Ticket that this process presents, and newly revoked keys.
  std::function<void(const std::string& ticket, const std::vector<std::string>& revoked_keys)>
      trust;
};

}  // namespace mobula::internal::client
