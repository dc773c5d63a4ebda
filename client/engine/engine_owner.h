// Receives the inputs of a ProcessEngine that are not for its client core. A driver overrides the
// part of every process, and an executor also the part of a callee.
// Thread: the engine's lock is held, on the loop thread, unless a function states another rule.
// Owner: outlives the engine.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/id.h"
#include "base/result.h"
#include "base/time.h"
#include "client/engine/span_answer.h"
#include "protocol/messages/agent_to_process.h"
#include "transport/bus/bus.h"

namespace mobula::internal::client {

class EngineOwner {
 public:
  virtual ~EngineOwner() = default;

  // ---- every process
  // ------------------------------------------------------------------------------
  virtual void received_from_agent(const AgentToProcess& /*message*/) {}
  // The agent closed the link. Without the lock.
  virtual void agent_lost(const Failure& /*why*/) {}
  // The state of an object changed. On any thread.
  virtual void object_changed() {}

  // ---- a callee
  // -----------------------------------------------------------------------------------
  virtual bool takes_calls() const { return false; }
  virtual void tick() {}
  // Also on the thread that calls rearm().
  virtual std::optional<Time> next_deadline() const { return std::nullopt; }
  // A message on an accepted connection, not inspected by the engine.
  virtual void received_from_peer(PeerHandle /*peer*/, const PeerOrigin& /*origin*/,
                                  std::span<const std::byte> /*bytes*/) {}
  virtual void peer_closed(PeerHandle /*peer*/) {}
  // By ring, on the thread that leads.
  virtual void received_from_caller(ProcessId /*caller*/, std::span<const std::byte> /*bytes*/) {}
  // Adds spans of calls that ran in this process.
  virtual void add_spans(SpanAnswer& /*answer*/) const {}
  // Follows AwaitSubmitted.
  virtual void submitted_done() {}
  // Follows ProcessEngine::release_name.
  virtual void name_released() {}
};

}  // namespace mobula::internal::client
