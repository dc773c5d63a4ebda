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
  std::string ticket;    // shown to executors
  RecordOptions record;  // of what the core is told
  std::string record_role = "driver";
  Duration ring_idle =
      30s;  // rings that this process calls by and that carried nothing for so long are closed
  Duration longest_spin =
      50us;  // a leader looks for so long before it sleeps, where the node's agent says nothing
};

// What the owner of kept tensors hears. Called with the lock held.
struct TensorHooks {
  std::function<void(ObjectId)> unneeded;
  std::function<void(const std::vector<ProcessId>&)>
      dead;  // these processes will never speak again
  std::function<TransfersReply(const TransfersRequest&)> asked;  // by the head
  std::function<void()> head_back;                               // it may be another one
  std::function<void()> store_lost;  // with the node's agent; the next one's is empty
  // What this process shows to others, and the keys that vouch for nobody: those that are new.
  std::function<void(const std::string& ticket, const std::vector<std::string>& revoked_keys)>
      trust;
};

// What an executor adds. All are called with the lock held, on the loop thread if nothing else is said;
// `next_deadline` also on the thread that calls rearm().
struct EngineHooks {
  std::function<void(const AgentToProcess&)> agent_said;
  std::function<void()> object_changed;
  std::function<void()> tick;
  std::function<std::optional<Time>()> next_deadline;
  // A message of an accepted connection; the engine has not looked at it.
  std::function<void(PeerHandle, const PeerOrigin&, std::span<const std::byte>)> peer_said;
  std::function<void(PeerHandle)> peer_gone;
  std::function<void(SpanAnswer&)> add_spans;  // of calls that ran here
  std::function<void()> submitted_done;        // after AwaitSubmitted
  std::function<void(ProcessId, std::span<const std::byte>)>
      caller_said;  // by ring; on the thread that leads
  // Called without the lock, on the loop thread: the agent has closed the link.
  std::function<void(const Failure&)> agent_lost;
};

}  // namespace mobula::internal::client
