// Options of ProcessEngine, and the callbacks by which its owners receive events: an executor, and
// the owner of kept tensors.
// Thread: the engine's lock is held, and EngineHooks run on the loop thread, unless a hook states
// another rule.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "client/core/client_options.h"
#include "client/engine/span_answer.h"
#include "protocol/messages/agent_to_process.h"
#include "protocol/messages/transfer_facts.h"
#include "protocol/recording/recorder.h"
#include "transport/bus/bus.h"

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

// Callbacks of an executor. Unless stated otherwise they run with the lock held on the loop thread.
// `next_deadline` also runs on the thread that calls rearm().
struct EngineHooks {
  std::function<void(const AgentToProcess&)> agent_said;
  std::function<void()> object_changed;
  std::function<void()> tick;
  std::function<std::optional<Time>()> next_deadline;
  // A message on an accepted connection, not inspected by the engine.
  std::function<void(PeerHandle, const PeerOrigin&, std::span<const std::byte>)> peer_said;
  std::function<void(PeerHandle)> peer_gone;
  std::function<void(SpanAnswer&)> add_spans;  // adds spans of calls that ran in this process
  std::function<void()> submitted_done;        // follows AwaitSubmitted
  std::function<void(ProcessId, std::span<const std::byte>)>
      caller_said;  // by ring; on the thread that leads
  // Called without the lock on the loop thread: the agent closed the link.
  std::function<void(const Failure&)> agent_lost;
};

}  // namespace mobula::internal::client
