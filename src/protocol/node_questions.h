// What the head asks agents while somebody wants to know: which logs a node has, what stands in them, and
// how busy the node and its executors are. Asked for, and never told unasked. A log is named by a word
// that its agent has given out or that is made of a slot's id (log_of_slot), never by a path. Plain structs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "base/time.h"
#include "model/payload.h"
#include "protocol/node_facts.h"

namespace mobula::internal {

// The log of the agent itself.
inline constexpr const char* log_of_agent = "agent";
// The last digits, as agents of earlier releases name their files.
inline std::string log_of_slot(SlotId slot) { return "slot-" + slot.hex().substr(24); }

// Head to agent: which logs does the node have? Answered by LogsListed.
struct ListLogs {
  std::uint64_t request = 0;
  JobId job;                // not empty: of its executors alone
  std::uint64_t limit = 0;  // the latest ones
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &ListLogs::request), field("job", &ListLogs::job),
                 field("limit", &ListLogs::limit));
  }
  friend bool operator==(const ListLogs&, const ListLogs&) = default;
};

struct LogFact {
  std::string log;              // as ReadLog names it
  JobId job;                    // empty: of the agent, or not known any more
  std::uint64_t size_bytes = 0;
  std::int64_t changed_ms = 0;  // wall clock
  bool open = false;            // there is somebody who may write into it
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("log", &LogFact::log), field("job", &LogFact::job),
                 field("size_bytes", &LogFact::size_bytes), field("changed_ms", &LogFact::changed_ms),
                 field("open", &LogFact::open));
  }
  friend bool operator==(const LogFact&, const LogFact&) = default;
};

struct LogsListed {
  std::uint64_t request = 0;
  std::vector<LogFact> logs;
  std::uint64_t left_out = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &LogsListed::request), field("logs", &LogsListed::logs),
                 field("left_out", &LogsListed::left_out));
  }
  friend bool operator==(const LogsListed&, const LogsListed&) = default;
};

// Head to agent: what stands in the log, from a place that an earlier answer has named? `file` 0: from the
// oldest byte there is, or from so many before the end where `from` is negative. Answered by LogPart.
struct ReadLog {
  std::uint64_t request = 0;
  std::string log;
  std::uint64_t file = 0;
  std::int64_t from = 0;
  std::uint64_t limit = 0;  // bytes
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &ReadLog::request), field("log", &ReadLog::log),
                 field("file", &ReadLog::file), field("from", &ReadLog::from),
                 field("limit", &ReadLog::limit));
  }
  friend bool operator==(const ReadLog&, const ReadLog&) = default;
};

struct LogPart {
  std::uint64_t request = 0;
  Payload bytes;
  std::uint64_t next_file = 0;  // where to go on
  std::int64_t next_from = 0;
  std::uint64_t left = 0;  // bytes there are beyond
  bool lost = false;       // what stood at the place that was asked for is no longer kept
  bool open = false;       // there is somebody who may write more
  std::string fault;       // why there is nothing
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &LogPart::request), field("bytes", &LogPart::bytes),
                 field("next_file", &LogPart::next_file), field("next_from", &LogPart::next_from),
                 field("left", &LogPart::left), field("lost", &LogPart::lost),
                 field("open", &LogPart::open), field("fault", &LogPart::fault));
  }
  friend bool operator==(const LogPart&, const LogPart&) = default;
};

// Head to agent: how busy are you? Answered by UsageTold.
struct AskUsage {
  std::uint64_t request = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &AskUsage::request));
  }
  friend bool operator==(const AskUsage&, const AskUsage&) = default;
};

// Bytes of a GPU, by its index on the node.
struct DeviceTaken {
  std::uint32_t device = 0;
  std::int64_t used_bytes = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("device", &DeviceTaken::device), field("used_bytes", &DeviceTaken::used_bytes));
  }
  friend bool operator==(const DeviceTaken&, const DeviceTaken&) = default;
};

// An executor, or the command of a submitted job. Processes it has started are not in it.
struct ExecutorUsage {
  SlotId slot;
  std::int64_t pid = 0;
  std::string running;              // the name of what it runs or ran last
  Duration cpu{};                   // processor time since it began
  std::int64_t resident_bytes = 0;  // all it has in memory
  std::int64_t own_bytes = 0;       // of it, what nobody else has: not files, not the store
  std::uint32_t threads = 0;
  std::vector<DeviceTaken> devices;
  bool partial = false;             // some of the processes below it were not looked at
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("slot", &ExecutorUsage::slot), field("pid", &ExecutorUsage::pid),
                 field("running", &ExecutorUsage::running), field("cpu", &ExecutorUsage::cpu),
                 field("resident_bytes", &ExecutorUsage::resident_bytes),
                 field("own_bytes", &ExecutorUsage::own_bytes),
                 field("threads", &ExecutorUsage::threads), field("devices", &ExecutorUsage::devices),
                 field("partial", &ExecutorUsage::partial));
  }
  friend bool operator==(const ExecutorUsage&, const ExecutorUsage&) = default;
};

// Two answers give rates: processor times rise, and `at` says how far the two are apart.
struct UsageTold {
  std::uint64_t request = 0;
  Duration at{};    // of the node's clock that never goes back
  Duration cpu{};   // processor time that all of the machine has used
  std::uint32_t cpus = 0;
  std::int64_t memory_used_bytes = 0;
  std::int64_t memory_bytes = 0;
  StoreFact store;
  std::vector<DeviceTaken> devices;  // the last look at them; none where nobody looks
  std::vector<ExecutorUsage> executors;
  std::uint64_t left_out = 0;  // executors that were not looked at
  std::int64_t wall_ms = 0;    // wall clock of the node; 0: of an earlier release
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("request", &UsageTold::request), field("at", &UsageTold::at),
                 field("cpu", &UsageTold::cpu), field("cpus", &UsageTold::cpus),
                 field("memory_used_bytes", &UsageTold::memory_used_bytes),
                 field("memory_bytes", &UsageTold::memory_bytes), field("store", &UsageTold::store),
                 field("devices", &UsageTold::devices), field("executors", &UsageTold::executors),
                 field("left_out", &UsageTold::left_out), field("wall_ms", &UsageTold::wall_ms));
  }
  friend bool operator==(const UsageTold&, const UsageTold&) = default;
};

}  // namespace mobula::internal
