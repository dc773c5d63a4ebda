// The state machine of one worker agent (one node, one incarnation): registers with the head and
// states facts, runs executor generations in the slots the head has booked, keeps the node's
// objects with their holds, relays between its processes and the head, and moves objects and
// programs between nodes. Pure: no clock, thread, I/O or randomness; payload bytes never come here.
// One thread at a time, its owner's.
//
// It does not schedule, sign, hash or read bytes: see worker_command.h for what the shell does.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "store/core/object_table.h"
#include "worker/core/worker_command.h"
#include "worker/core/worker_event.h"
#include "worker/core/worker_options.h"

namespace mobula::internal::worker {

// What is in the core's tables; all of it is 0 when everything has been released and has ended,
// except `peers`.
struct Census {
  std::size_t slots = 0;
  std::size_t links = 0;      // connections, attached or not
  std::size_t processes = 0;  // attached drivers and running executors
  std::size_t programs = 0;
  std::size_t objects = 0;  // rows of the object table
  std::size_t entries = 0;  // what is known beyond the table: owners, locations, waiting
  std::size_t pins = 0;     // holds of the agent itself
  std::size_t pulls = 0;
  std::size_t offers = 0;
  std::size_t slabs = 0;
  std::size_t spill_files = 0;
  std::size_t moving = 0;  // objects to and from disk
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

  // Takes one event and appends what is to be done. `now` never goes backwards. The first event is
  // Started; after the command Fence or Exit no more events are due, and they change nothing.
  void step(Time now, Event event, std::vector<Command>& out);
  // When Tick is due, if nothing happens before.
  std::optional<Time> next_deadline() const;

  // ---- views, for the shell's status page, the simulator's checkers and tests ------------------
  bool registered() const;                   // in a conversation with the head
  std::uint64_t head_epoch() const;          // of it; 0: none yet
  Facts facts() const;                       // as they would be stated now
  std::vector<std::string> running() const;  // names of the calls that run, for people
  Census census() const;
  bool deadlines_are_exact() const;   // by a walk over all slots, processes and peers: for tests
  std::size_t visited_rows() const;   // by the last step, to find the next deadline
  const ObjectTable& objects() const;
  // Whether it counts this process among those that may look at the object where it lies.
  bool in_place(ProcessId process, ObjectId object) const;
  // See Objects.
  std::vector<std::pair<ObjectId, ProcessId>> awaited_without_bytes() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace mobula::internal::worker
