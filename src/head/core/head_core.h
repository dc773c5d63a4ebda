// The head's decisions as one state machine: who belongs to the cluster, what runs where, which
// jobs, actors and names exist, and what has to be durable before it is said. Pure: no clock,
// thread, I/O or hash order; the same inputs give the same outputs. Not thread-safe; one shell owns
// it.
//
// The first event is Started. Until the new epoch is durable (Persisted for its batch) agents get
// no answer and tools are told to wait. With nodes in the journal the head then *recovers*: it
// grants on nodes that have registered, declares no deaths and restarts no actors, until all of
// them have come or `recovery` has passed.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "head/core/inputs.h"
#include "head/core/options.h"
#include "head/core/outputs.h"
#include "head/core/view.h"

namespace mobula::internal::head {

struct Parts;

class HeadCore {
 public:
  using Options = HeadOptions;
  using Event = head::Event;
  using Command = head::Command;

  explicit HeadCore(HeadOptions options = {});
  ~HeadCore();
  HeadCore(HeadCore&&) noexcept;
  HeadCore& operator=(HeadCore&&) noexcept;

  // Takes one input and appends what is to be done. `now` never goes back.
  void step(Time now, Event event, std::vector<Command>& out);
  // When step is to be called with Tick if nothing else comes first.
  std::optional<Time> next_deadline() const;

  std::uint64_t epoch() const;
  bool recovering() const;
  HeadView view() const;
  // Whether a submitted job that has not ended came with the files of this name.
  bool needs_files(const std::string& name) const;
  // Who holds the key of a token, or has joined by one. permission_denied says why it is nobody:
  // expired, revoked, unknown.
  Result<Principal> principal_of(const std::string& public_key, Time now) const;
  // What the core takes the wall clock to say; ClockMoved mends it.
  std::int64_t wall_ms(Time now) const;
  // Recounts the scheduler's books from the slots. The text says where they differ.
  Result<void> verify() const;

 private:
  std::unique_ptr<Parts> parts_;
};

}  // namespace mobula::internal::head
