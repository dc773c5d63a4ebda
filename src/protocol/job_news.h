// Submitted jobs between head and agents: how their entry points ended, and what they have printed.
// Plain structs.
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"
#include "base/id.h"
#include "model/payload.h"
#include "model/principal.h"

namespace mobula::internal {

// The command of a submitted job has ended on the node: stated to each head, since it may have ended while
// there was none.
struct EntryEnded {
  ActorId actor;
  SlotId slot;
  std::uint32_t generation = 0;
  EndCause cause;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("actor", &EntryEnded::actor), field("slot", &EntryEnded::slot),
                 field("generation", &EntryEnded::generation), field("cause", &EntryEnded::cause));
  }
  friend bool operator==(const EntryEnded&, const EntryEnded&) = default;
};

// Head to agent: what has the job printed there, from byte `from` of all it has printed there? A negative
// `from` counts from the end. Answered by JobLogPart.
struct ReadJobLog {
  std::uint64_t request = 0;
  JobId job;
  std::int64_t from = 0;
  std::uint64_t limit = 0;  // bytes
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &ReadJobLog::request), field("job", &ReadJobLog::job),
                 field("from", &ReadJobLog::from), field("limit", &ReadJobLog::limit));
  }
  friend bool operator==(const ReadJobLog&, const ReadJobLog&) = default;
};

struct JobLogPart {
  std::uint64_t request = 0;
  std::uint64_t from = 0;      // of `bytes`: later than asked where what was before is no longer kept
  std::uint64_t end = 0;       // of all that was printed so far
  Payload bytes;
  std::string fault;           // why there is nothing
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &JobLogPart::request), field("from", &JobLogPart::from),
                 field("end", &JobLogPart::end), field("bytes", &JobLogPart::bytes),
                 field("fault", &JobLogPart::fault));
  }
  friend bool operator==(const JobLogPart&, const JobLogPart&) = default;
};

}  // namespace mobula::internal
