// Tables of one head core and their shared state: options, and the time and commands of the current
// step. Tables reach each other through this struct and refer to rows by id.
// Thread: owner (one HeadCore). Not: for code outside this directory.
#pragma once

#include <optional>
#include <vector>

#include "head/core/actors/actor_table.h"
#include "head/core/actors/group_table.h"
#include "head/core/head_counts.h"
#include "head/core/head_options.h"
#include "head/core/jobs/experiment_board.h"
#include "head/core/jobs/failed_tasks.h"
#include "head/core/jobs/job_table.h"
#include "head/core/jobs/submission_table.h"
#include "head/core/jobs/use_table.h"
#include "head/core/nodes/fleet_board.h"
#include "head/core/nodes/link_table.h"
#include "head/core/nodes/node_table.h"
#include "head/core/nodes/process_table.h"
#include "head/core/query/change_poll.h"
#include "head/core/query/figure_history.h"
#include "head/core/query/job_log_query.h"
#include "head/core/query/node_query.h"
#include "head/core/query/node_samples.h"
#include "head/core/query/object_query.h"
#include "head/core/query/query_rate_limiter.h"
#include "head/core/query/span_query.h"
#include "head/core/query/state_reader.h"
#include "head/core/query/task_query.h"
#include "head/core/query/transfer_counts.h"
#include "head/core/query/transfer_query.h"
#include "head/core/records/event_log.h"
#include "head/core/records/journal.h"
#include "head/core/records/rejection_log.h"
#include "head/core/replica_directory.h"
#include "head/core/slots/last_use.h"
#include "head/core/slots/slot_table.h"
#include "head/core/token_table.h"
#include "scheduler/scheduler.h"

namespace mobula::internal::head {

inline scheduler::SchedulerSettings settings_of(const HeadOptions& options) {
  scheduler::SchedulerSettings settings;
  settings.preemption.after = options.preempt_delay;
  return settings;
}

struct HeadTables {
  explicit HeadTables(HeadOptions settings)
      : options(std::move(settings)), journal(options.persist_again) {}
  HeadTables(const HeadTables&) = delete;
  HeadTables& operator=(const HeadTables&) = delete;

  const HeadOptions options;
  Time now;
  std::vector<Command> commands;  // commands of this step

  std::uint64_t epoch = 0;
  // Epoch that was written to the journal to replace `epoch`; 0: none.
  std::uint64_t raised_epoch = 0;
  Hash128 epoch_id;
  Time started_at;
  std::int64_t wall_at_start_ms = 0;
  bool serving = false;           // the epoch is durable
  std::string requesting_user;    // user id of the tool whose request is handled; empty: none
  std::optional<Time> epoch_due;  // next attempt to make the epoch durable
  std::uint64_t changes = 0;      // steps of this epoch that may have changed a list or the status

  scheduler::Scheduler scheduler{settings_of(options)};
  Journal journal;
  EventLog events{*this};
  NodeTable nodes{*this};
  ProcessTable processes{*this};
  JobTable jobs{*this};
  SlotTable slots{*this};
  LinkTable links{*this};
  ActorTable actors{*this};
  GroupTable groups{*this};
  ReplicaDirectory copies{*this};
  ObjectQuery objects{*this};
  LastUse last_use;
  TaskQuery tasks{*this};
  FailedTasks failed_tasks{*this};
  TransferQuery transfers{*this};
  SpanQuery spans{*this};
  TransferCounts transfer_counts;
  UseTable class_use;
  LabelValues resource_labels;
  NodeSamples samples{*this};
  FigureHistory history{*this};
  HeadCounts counts;
  SubmissionTable submissions{*this};
  JobLogQuery job_logs{*this};
  NodeQuery node_questions{*this};
  TokenTable tokens{*this};
  FleetBoard fleet{*this};
  ExperimentBoard experiments{*this};
  ChangePoll polls{*this};
  RejectionLog refusals;
  QueryRateLimiter rates{options.questions_at_once, options.questions_per_second};
  StateReader reader{*this};
};

// Wall clock of this step, in milliseconds since 1970.
inline std::int64_t wall_ms(const HeadTables& tables, Time now) {
  return tables.wall_at_start_ms + (now - tables.started_at) / std::chrono::milliseconds(1);
}

// Returns the earlier of two optional deadlines.
inline std::optional<Time> earlier(std::optional<Time> a, std::optional<Time> b) {
  if (!a) return b;
  if (!b) return a;
  return std::min(*a, *b);
}

}  // namespace mobula::internal::head
