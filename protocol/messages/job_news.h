// Messages about submitted jobs between head and agents: the end of their commands, and their
// output.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"
#include "base/id.h"
#include "base/model/payload.h"
#include "base/model/principal.h"

namespace mobula::internal {

// The command of a submitted job has ended on the node. The agent reports it to each head, because
// it may have ended while no head was running.
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

// Requests output of the job on this node, from byte `from` of all its output there. A negative
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
  // offset of `bytes`; above the requested offset if the earlier bytes are no longer kept
  std::uint64_t from = 0;
  std::uint64_t end = 0;  // size of all output until now
  Payload bytes;
  std::string fault;  // reason that no bytes were returned
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &JobLogPart::request), field("from", &JobLogPart::from),
                 field("end", &JobLogPart::end), field("bytes", &JobLogPart::bytes),
                 field("fault", &JobLogPart::fault));
  }
  friend bool operator==(const JobLogPart&, const JobLogPart&) = default;
};

}  // namespace mobula::internal
