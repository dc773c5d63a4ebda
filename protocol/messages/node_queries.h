// Queries from the head to agents: the logs of a node, the content of a log, and the load of the
// node and its executors. Sent only while a tool waits for the answer. A log is named by a word
// that its agent returned or by log_of_slot(), never by a path.
// Thread: owner (plain values).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/id.h"
#include "base/model/payload.h"
#include "base/time.h"
#include "protocol/messages/facts/node_facts.h"

namespace mobula::internal {

// Name of the agent's log.
inline constexpr const char* log_of_agent = "agent";
// Log name of a slot. Agents of earlier releases also name their files by the last 8 digits.
inline std::string log_of_slot(SlotId slot) { return "slot-" + slot.hex().substr(24); }

// Requests the list of logs of a node. Answered by LogsReply.
struct LogsRequest {
  std::uint64_t request = 0;
  JobId job;                // not empty: only logs of its executors
  std::uint64_t limit = 0;  // limit on the number of logs, the latest first
  MOBULA_FIELDS(request, job, limit);
  friend bool operator==(const LogsRequest&, const LogsRequest&) = default;
};

struct LogFact {
  std::string log;  // name for ReadLogRequest
  JobId job;        // empty: log of the agent, or a job that is no longer known
  std::uint64_t size_bytes = 0;
  std::int64_t changed_ms = 0;  // wall clock
  bool open = false;            // a process may still write to it
  MOBULA_FIELDS(log, job, size_bytes, changed_ms, open);
  friend bool operator==(const LogFact&, const LogFact&) = default;
};

struct LogsReply {
  std::uint64_t request = 0;
  std::vector<LogFact> logs;
  std::uint64_t left_out = 0;
  MOBULA_FIELDS(request, logs, left_out);
  friend bool operator==(const LogsReply&, const LogsReply&) = default;
};

// Requests bytes of a log, from a position that an earlier ReadLogReply returned. With `file` 0,
// reading begins at the oldest byte, or -`from` bytes before the end if `from` is negative.
// Answered by ReadLogReply.
struct ReadLogRequest {
  std::uint64_t request = 0;
  std::string log;
  std::uint64_t file = 0;
  std::int64_t from = 0;
  std::uint64_t limit = 0;  // bytes
  MOBULA_FIELDS(request, log, file, from, limit);
  friend bool operator==(const ReadLogRequest&, const ReadLogRequest&) = default;
};

struct ReadLogReply {
  std::uint64_t request = 0;
  Payload bytes;
  std::uint64_t next_file = 0;  // position for the next request
  std::int64_t next_from = 0;
  std::uint64_t left = 0;  // bytes after this part
  bool lost = false;       // the requested position is no longer kept
  bool open = false;       // a process may still write to it
  std::string fault;       // reason that no bytes were returned
  MOBULA_FIELDS(request, bytes, next_file, next_from, left, lost, open, fault);
  friend bool operator==(const ReadLogReply&, const ReadLogReply&) = default;
};

// Requests the load of a node. Answered by UsageReply.
struct UsageRequest {
  std::uint64_t request = 0;
  bool node_only = false;  // without executors
  MOBULA_FIELDS(request, node_only);
  friend bool operator==(const UsageRequest&, const UsageRequest&) = default;
};

// Used bytes of a GPU, by its index on the node.
struct DeviceTaken {
  std::uint32_t device = 0;
  std::int64_t used_bytes = 0;
  // Part of the last second in which a kernel ran, of all processes; -1: not reported.
  std::int32_t busy_percent = -1;
  MOBULA_FIELDS(device, used_bytes, busy_percent);
  friend bool operator==(const DeviceTaken&, const DeviceTaken&) = default;
};

// Usage of an executor, or of the command of a submitted job. Processes that it started are not
// included.
struct ExecutorUsage {
  SlotId slot;
  std::int64_t pid = 0;
  std::string running;              // name of the running or latest call
  Duration cpu{};                   // processor time since its start
  std::int64_t resident_bytes = 0;  // all resident memory
  // part of `resident_bytes` that is private: neither files nor the store
  std::int64_t own_bytes = 0;
  std::uint32_t threads = 0;
  std::vector<DeviceTaken> devices;
  bool partial = false;  // some child processes were not inspected
  MOBULA_FIELDS(slot, pid, running, cpu, resident_bytes, own_bytes, threads, devices, partial);
  friend bool operator==(const ExecutorUsage&, const ExecutorUsage&) = default;
};

// Usage of a node and its executors. Two replies give rates: processor times rise, and `at` gives
// the interval between the replies.
struct UsageReply {
  std::uint64_t request = 0;
  Duration at{};   // monotonic clock of the node
  Duration cpu{};  // processor time of the whole machine
  std::uint32_t cpus = 0;
  std::int64_t memory_used_bytes = 0;
  std::int64_t memory_bytes = 0;
  StoreFact store;
  std::vector<DeviceTaken> devices;  // latest sample; empty if devices are not sampled
  std::vector<ExecutorUsage> executors;
  std::uint64_t left_out = 0;  // executors that were not inspected
  std::int64_t wall_ms = 0;    // wall clock of the node; 0: an earlier release
  MOBULA_FIELDS(request, at, cpu, cpus, memory_used_bytes, memory_bytes, store, devices, executors,
                left_out, wall_ms);
  friend bool operator==(const UsageReply&, const UsageReply&) = default;
};

}  // namespace mobula::internal
