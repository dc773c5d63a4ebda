// The state machine of one worker agent (one node, one incarnation). It registers with the head,
// states facts, and runs executor generations in allocated slots. It tracks the objects of the node
// with their holds, relays messages, and moves objects and programs between nodes. Pure: no clock,
// thread, I/O, or randomness, and no payload bytes.
// Thread: owner. Not: scheduling, signing, hashing, reading bytes (see worker_command.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "store/core/object_table.h"
#include "worker/core/worker_commands.h"
#include "worker/core/worker_events.h"
#include "worker/core/worker_options.h"

namespace mobula::internal::worker {

// Sizes of the core's tables. After everything is released and has ended, all but `peers` are 0.
struct Census {
  std::size_t slots = 0;
  std::size_t links = 0;      // connections, attached or not
  std::size_t processes = 0;  // attached drivers and running executors
  std::size_t programs = 0;
  std::size_t objects = 0;  // rows of the object table
  std::size_t entries = 0;  // object entries: owners, locations, waiting readers
  std::size_t pins = 0;     // holds of the agent
  std::size_t pulls = 0;
  std::size_t offers = 0;
  std::size_t slabs = 0;
  std::size_t spill_files = 0;
  std::size_t moving = 0;  // objects on the way to or from disk
  std::size_t peers = 0;
  friend bool operator==(const Census&, const Census&) = default;
};

class WorkerCore {
 public:
  using Options = WorkerOptions;
  using Event = worker::Event;
  using Command = worker::Command;

  explicit WorkerCore(WorkerOptions options = {});
  ~WorkerCore();
  WorkerCore(WorkerCore&&) noexcept;
  WorkerCore& operator=(WorkerCore&&) noexcept;

  // Applies one event and appends the resulting commands. `now` never decreases. The first event is
  // Started. After the command Fence or Exit, events have no effect.
  void step(Time now, Event event, std::vector<Command>& out);
  // The time of the next Tick, if no event precedes it.
  std::optional<Time> next_deadline() const;

  // ---- views for the status page, the simulator's checkers and tests ----------------------------
  bool registered() const;                   // a session with the head exists
  std::uint64_t head_epoch() const;          // its epoch; 0: none yet
  Facts facts() const;                       // current facts
  std::vector<std::string> running() const;  // human-readable names of the running calls
  Census census() const;
  bool deadlines_are_exact() const;  // by a walk over all slots, processes and peers: for tests
  std::size_t visited_rows() const;  // by the last step, to find the next deadline
  const ObjectTable& objects() const;
  // True if the process may have the object mapped in place.
  bool in_place(ProcessId process, ObjectId object) const;
  // See Objects.
  std::vector<std::pair<ObjectId, ProcessId>> awaited_without_bytes() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace mobula::internal::worker
