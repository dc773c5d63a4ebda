// Messages about submitted jobs between head and agents: the end of their commands, and their
// output.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>

#include "base/fields.h"
#include "base/id.h"
#include "base/model/jobs/principal.h"
#include "base/model/payload.h"

namespace mobula::internal {

// The command of a submitted job has ended on the node. The agent reports it to each head, because
// it may have ended while no head was running.
struct EntryEnded {
  ActorId actor;
  SlotId slot;
  std::uint32_t generation = 0;
  EndCause cause;
  MOBULA_FIELDS(actor, slot, generation, cause);
  friend bool operator==(const EntryEnded&, const EntryEnded&) = default;
};

// Requests output of the job on this node, from byte `from` of all its output there. A negative
// `from` counts from the end. Answered by ReadJobLogReply.
struct ReadJobLogRequest {
  std::uint64_t request = 0;
  JobId job;
  std::int64_t from = 0;
  std::uint64_t limit = 0;  // bytes
  MOBULA_FIELDS(request, job, from, limit);
  friend bool operator==(const ReadJobLogRequest&, const ReadJobLogRequest&) = default;
};

struct ReadJobLogReply {
  std::uint64_t request = 0;
  // offset of `bytes`; above the requested offset if the earlier bytes are no longer kept
  std::uint64_t from = 0;
  std::uint64_t end = 0;  // size of all output until now
  Payload bytes;
  std::string fault;  // reason that no bytes were returned
  MOBULA_FIELDS(request, from, end, bytes, fault);
  friend bool operator==(const ReadJobLogReply&, const ReadJobLogReply&) = default;
};

}  // namespace mobula::internal
