// The logs of a node, as its agent keeps and gives them out: one capped file for each slot, named by slot and
// job, and the agent's own. Those of ended slots stay until there are too many or they take too much room;
// then those that ended longest ago go. What is asked for is named by a word (protocol/node_questions.h),
// never by a path: words that name no log here find nothing. Touches the disk; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "protocol/node_questions.h"
#include "worker/process/output.h"

namespace mobula::internal::worker {

struct SlotLogLimits {
  std::uint64_t bytes = std::uint64_t{1} << 30;  // of slots that have ended
  std::size_t ended = 2'000;                     // likewise
};

class SlotLogs {
 public:
  // Slots whose logs are there already have ended.
  explicit SlotLogs(std::string folder, SlotLogLimits limits = {});

  // Null, with a line in the agent's log, where the disk refuses.
  CappedLog* open(SlotId slot, JobId job);
  // The slot has no executor any more.
  void close(SlotId slot);

  LogsListed list(const ListLogs& question) const;
  // A part is small, and what was printed lately lies in memory.
  LogPart read(const ReadLog& question) const;

 private:
  struct Row {
    JobId job{};
    std::string path{};
    std::uint64_t bytes = 0;  // once it has ended
    bool open = false;
  };

  void make_room();

  const std::string folder_;
  const SlotLogLimits limits_;
  std::map<std::string, Row> rows_;  // by the word
  std::map<SlotId, CappedLog> open_;
  std::deque<std::string> ended_;  // the first of them first
  std::uint64_t bytes_ = 0;        // of those
};

}  // namespace mobula::internal::worker
