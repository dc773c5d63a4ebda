// The logs of a node: one capped file for each slot, named by slot and job, and the agent's own.
// Logs of ended slots are kept up to a count and a size; the earliest ended are removed first.
// Requests name a log by a word (protocol/node_questions.h), never by a path. Unknown words find
// nothing.
// Thread: owner. Units: bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "protocol/messages/node_queries.h"
#include "worker/process/output_pipe.h"

namespace mobula::internal::worker {

struct SlotLogLimits {
  std::uint64_t bytes = std::uint64_t{1} << 30;  // for ended slots together
  std::size_t ended = 2'000;                     // number of ended slots
};

class SlotLogs {
 public:
  // Slots with existing logs have ended.
  explicit SlotLogs(std::string directory, SlotLogLimits limits = {});

  // Null after a failed open, which is logged.
  CappedLog* open(SlotId slot, JobId job);
  // The slot has no executor any more.
  void close(SlotId slot);

  LogsReply list(const LogsRequest& question) const;
  // Reads a part. A part is small, and recent output is in the page cache.
  ReadLogReply read(const ReadLogRequest& question) const;

 private:
  struct Row {
    JobId job{};
    std::string path{};
    std::uint64_t bytes = 0;  // size at the end of the slot
    bool open = false;
  };

  void enforce_limits();

  const std::string directory_;
  const SlotLogLimits limits_;
  std::map<std::string, Row> rows_;  // by word
  std::map<SlotId, CappedLog> open_;
  std::deque<std::string> ended_;  // in order of their end
  std::uint64_t bytes_ = 0;        // total size of the ended logs
};

}  // namespace mobula::internal::worker
