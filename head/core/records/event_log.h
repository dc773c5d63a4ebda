// Event log of the cluster: a bounded memory of events that other tables note. Two rings keep a
// flood of ordinary events from evicting warnings. At the limit the oldest event is removed and
// counted. An equal event within a minute raises a count instead.
// The journal stores the latest events. They are added to batches that are written for other
// reasons, so a killed head loses the events after its last batch.
// Thread: owner (one HeadCore). Not: decisions. The core never reads the log.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/model/jobs/principal.h"
#include "base/time.h"
#include "head/core/head_events.h"

namespace mobula::internal::head {

struct HeadTables;

// Part of the journal format: append only.
enum class Severity : std::uint8_t { debug = 0, info = 1, warning = 2, error = 3 };
std::string_view to_string(Severity severity);

// Kinds of events, in alphabetical order.
inline constexpr auto event_kinds = std::to_array<std::string_view>({"ACTOR_ALIVE",
                                                                     "ACTOR_CREATED",
                                                                     "ACTOR_DIED",
                                                                     "ACTOR_RESTARTING",
                                                                     "CLUSTER_STOPPED",
                                                                     "CONNECTION_REFUSED",
                                                                     "EXECUTOR_CALLS_CUT",
                                                                     "EXECUTOR_DIED",
                                                                     "EXECUTOR_ENDED",
                                                                     "EXECUTOR_EXIT_FAILED",
                                                                     "EXECUTOR_OOM_KILLED",
                                                                     "GPU_SHARE_EXCEEDED",
                                                                     "GROUP_CREATED",
                                                                     "GROUP_INFEASIBLE",
                                                                     "GROUP_REMOVED",
                                                                     "GROUP_RESCHEDULING",
                                                                     "HEAD_JOURNAL_OUTDATED",
                                                                     "HEAD_KEYS_EXPOSED",
                                                                     "HEAD_RECOVERED",
                                                                     "HEAD_STARTED",
                                                                     "JOB_ENDED",
                                                                     "JOB_RETRIED",
                                                                     "JOB_STARTED",
                                                                     "JOB_STOP",
                                                                     "JOB_SUBMITTED",
                                                                     "JOURNAL_WRITE_FAILED",
                                                                     "LAUNCH_FAILED",
                                                                     "LINK_LOST",
                                                                     "LINK_RESTORED",
                                                                     "MESSAGE_DROPPED",
                                                                     "NODE_DIED",
                                                                     "NODE_DRAINING",
                                                                     "NODE_DRAIN_DEADLINE",
                                                                     "NODE_GIVEN_BACK",
                                                                     "NODE_JOINED",
                                                                     "NODE_LAUNCHED",
                                                                     "NODE_LEFT",
                                                                     "NODE_MEMORY_PRESSURE",
                                                                     "NODE_MEMORY_PRESSURE_CLEARED",
                                                                     "NODE_RECOVERED",
                                                                     "NODE_REFUSED",
                                                                     "NODE_REPLACED",
                                                                     "NODE_SUSPECT",
                                                                     "NODE_UNDRAINED",
                                                                     "PREEMPTION_REFUSED",
                                                                     "PROGRAM_START_FAILED",
                                                                     "REQUEST_REFUSED",
                                                                     "TASK_PREEMPTED",
                                                                     "TOKEN_CREATED",
                                                                     "TOKEN_REVOKED",
                                                                     "TOKEN_USED",
                                                                     "TYPE_PAUSED"});

// Renamed kinds: the old name, which filters and journals of the previous release use, and the
// present one.
inline constexpr auto renamed_event_kinds =
    std::to_array<std::pair<std::string_view, std::string_view>>(
        {{"EXECUTOR_ENDED_FOR_MEMORY", "EXECUTOR_OOM_KILLED"},
         {"GPU_OVER_SHARE", "GPU_SHARE_EXCEEDED"},
         {"JOURNAL_NOT_WRITTEN", "JOURNAL_WRITE_FAILED"},
         {"NODE_HAS_MEMORY_AGAIN", "NODE_MEMORY_PRESSURE_CLEARED"},
         {"NODE_HEARD_AGAIN", "NODE_RECOVERED"},
         {"NODE_SHORT_OF_MEMORY", "NODE_MEMORY_PRESSURE"},
         {"NODE_SILENT", "NODE_SUSPECT"},
         {"PREEMPTION", "TASK_PREEMPTED"},
         {"PROGRAM_NOT_STARTED", "PROGRAM_START_FAILED"}});
// Returns the present name of a kind.
constexpr std::string_view present_kind(std::string_view kind) {
  for (const auto& [before, now] : renamed_event_kinds) {
    if (kind == before) return now;
  }
  return kind;
}

// Subjects of an event. Empty ids are not subjects.
struct EventSubjects {
  NodeId node{};
  JobId job{};
  ActorId actor{};
  GroupId group{};
  ProcessId process{};
  SlotId slot{};
  MOBULA_FIELDS(node, job, actor, group, process, slot);
  friend bool operator==(const EventSubjects&, const EventSubjects&) = default;
};

// One event, and the row of table "events".
struct EventRow {
  std::uint64_t number = 0;  // consecutive
  std::int64_t at_ms = 0;    // wall clock
  Severity severity = Severity::info;
  std::string kind;       // "NODE_DIED"
  std::string source;     // role of the peer that caused the event; "head": none
  std::string principal;  // name of the peer's key, or its job
  EventSubjects about;
  std::string text;
  std::uint64_t count = 1;   // number of occurrences
  std::int64_t last_ms = 0;  // time of the last occurrence, wall clock
  MOBULA_FIELDS(number, at_ms, severity, kind, source, principal, about, text, count, last_ms);
};

// Names the principal whose request is being handled, for the lifetime of this object.
class Speaker {
 public:
  Speaker(HeadTables& tables, const Principal& principal);
  ~Speaker();
  Speaker(const Speaker&) = delete;
  Speaker& operator=(const Speaker&) = delete;

 private:
  HeadTables& tables_;
  const Principal* before_;
};

class EventLog {
 public:
  explicit EventLog(HeadTables& tables) : tables_(tables) {}

  void note(Severity severity, std::string_view kind, EventSubjects about, std::string text);
  void restore(const EventRow& row);
  // Ends the restoration of rows: events from now on belong to this epoch.
  void begin();
  // Adds events that are not in the journal yet to the batch that is about to be written.
  void write();

  // Ordered by number.
  std::vector<const EventRow*> rows() const;
  // Highest number that an earlier epoch assigned.
  std::uint64_t restored_through() const { return restored_through_; }
  std::uint64_t last() const { return last_; }
  // Number of occurrences, including those that only raised a count.
  std::uint64_t noted() const { return noted_; }
  // Number of events of this epoch that were removed at the limit, and the highest of their
  // numbers.
  std::uint64_t forgotten() const { return forgotten_; }
  std::uint64_t forgotten_through() const { return forgotten_through_; }

 private:
  friend class Speaker;
  using Ring = std::deque<EventRow>;

  static constexpr std::size_t max_ordinary = 8192;
  static constexpr std::size_t max_warnings = 8192;
  static constexpr std::size_t max_text_bytes = 1024;
  static constexpr std::size_t max_alike_scanned = 16;  // latest events that are compared
  static constexpr std::int64_t alike_within_ms = 60'000;
  static constexpr std::uint64_t max_journalled = 1024;
  static constexpr std::size_t max_written_at_once = 256;

  Ring& ring_of(Severity severity) { return severity < Severity::warning ? ordinary_ : warnings_; }
  bool count_again(Severity severity, std::string_view kind, const EventSubjects& about,
                   const std::string& text, std::int64_t now_ms);
  void store(EventRow row);
  std::int64_t wall_ms() const;

  HeadTables& tables_;
  Ring ordinary_;
  Ring warnings_;
  std::uint64_t last_ = 0;
  std::uint64_t noted_ = 0;
  std::uint64_t restored_through_ = 0;
  std::uint64_t forgotten_ = 0;
  std::uint64_t forgotten_through_ = 0;
  std::deque<EventRow> unwritten_;  // at most max_journalled
  const Principal* speaker_ = nullptr;
};

}  // namespace mobula::internal::head
