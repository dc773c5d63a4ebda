#include "cli/commands/timeline/timeline_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "base/model/direct_path.h"
#include "base/model/task.h"
#include "base/text/json_writer.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

// Rows of one process: one row per concurrent call, then two rows of the calls that it submitted.
constexpr int rows_of_process = 512;
constexpr int submits_row = 200;
constexpr int results_row = 201;
constexpr int transfers_row = 202;
constexpr int max_lanes = 190;
constexpr std::uint32_t max_results = 8;  // per call, matched with transferred objects

// Nanoseconds since the epoch of the clock.
using Instant = std::int64_t;

struct Track {
  int node = 0;   // "pid" in the trace
  int first = 0;  // "tid" of its first row
  std::string name;
  std::string job;
};

// Slices of one row must not overlap: each uses the first free row.
class Lanes {
 public:
  int take(Instant begin, Instant end) {
    for (std::size_t i = 0; i < free_from_.size(); ++i) {
      if (free_from_[i] > begin) continue;
      free_from_[i] = end;
      return static_cast<int>(i);
    }
    if (free_from_.size() >= max_lanes) return max_lanes - 1;
    free_from_.push_back(end);
    return static_cast<int>(free_from_.size()) - 1;
  }
  int used() const { return static_cast<int>(free_from_.size()); }

 private:
  std::vector<Instant> free_from_;
};

class Writer {
 public:
  Writer(const Json& timeline, const std::vector<ProcessSpans>& spans) : spans_(spans) {
    add_tracks(timeline);
    find_begin();
  }

  Trace write() {
    add_ran_of_ended();
    for (const auto& each : spans_) {
      write_ran(each);
      write_owned(each);
      write_transfers(each);
      counts_.forgotten +=
          each.spans.ran_forgotten + each.spans.owned_forgotten + each.spans.transfers_forgotten;
    }
    Json trace = Json::object();
    trace["displayTimeUnit"] = "ms";
    trace["otherData"] = {
        {"program", "mobula"}, {"begin_us", begin_ / 1000}, {"forgotten", counts_.forgotten}};
    // Row names first, then all events by time, so that no row goes backwards.
    std::vector<Json> sorted(std::make_move_iterator(events_.begin()),
                             std::make_move_iterator(events_.end()));
    std::ranges::stable_sort(sorted, {}, [](const Json& event) { return event.value("ts", -1.0); });
    trace["traceEvents"] = std::move(sorted);
    return {json_text(trace) + "\n", counts_};
  }

 private:
  static Instant wall_ns(const SpansReply& spans) { return spans.wall_us * 1000; }
  static Instant at(const SpansReply& spans, Duration ago) { return wall_ns(spans) - ago.count(); }

  // Sets the rows of a process.
  void track(ProcessId process, const std::string& node, const std::string& host,
             const std::string& name, const std::string& job) {
    const auto [number, fresh] = nodes_.try_emplace(node, static_cast<int>(nodes_.size()) + 1);
    if (fresh) {
      name_row("process_name", number->second, 0,
               fmt::format("node {} {}", node.substr(0, 12), host));
      sort_row("process_sort_index", number->second, 0, number->second);
    }
    tracks_[process] = {number->second, 1 + rows_of_process * next_row_[number->second]++, name,
                        job};
  }

  // Owners know the run time of calls of executors that have exited.
  void add_ran_of_ended() {
    std::set<ProcessId> living;
    for (const auto& each : spans_) living.insert(each.process);
    std::map<ProcessId, ProcessSpans> ended;
    for (const auto& each : spans_) {
      for (const auto& span : each.spans.owned) {
        if (span.executor.empty() || span.ran <= Duration(0) || living.contains(span.executor))
          continue;
        ProcessSpans& of = ended[span.executor];
        if (of.process.empty()) {
          of.process = span.executor;
          of.spans.wall_us = each.spans.wall_us;
          if (!tracks_.contains(span.executor)) {
            const Track* owner = track_of(each.process);
            track(span.executor, span.node.hex(), "", fmt::format("executor pid {}", span.pid),
                  owner == nullptr ? "" : owner->job);
          }
        }
        // Uses the names and the clock of the owner that reported them.
        const Duration later = std::chrono::microseconds(of.spans.wall_us - each.spans.wall_us);
        of.spans.names.push_back(name_of(each.spans, span.name));
        of.spans.ran.push_back({span.task, static_cast<std::uint32_t>(of.spans.names.size() - 1),
                                span.ended + span.ran + later, span.ended + later, span.failed});
      }
    }
    for (const auto& [process, of] : ended) write_ran(of);
  }

  void add_tracks(const Json& timeline) {
    const Json processes =
        timeline.is_object() ? timeline.value("processes", Json::array()) : Json::array();
    for (const auto& each : processes) {
      const auto text = [&](const char* member) {
        const auto found = each.find(member);
        return found != each.end() && found->is_string() ? found->get<std::string>()
                                                         : std::string();
      };
      const auto id = ProcessId::from_hex(text("process_id"));
      if (!id) continue;
      const auto pid = each.value("pid", std::int64_t{0});  // absent for agents
      track(*id, text("node_id"), text("host"),
            pid == 0 ? text("role") : fmt::format("{} pid {}", text("role"), pid), text("job_id"));
    }
  }

  // Finds the earliest time: a trace begins at 0.
  void find_begin() {
    begin_ = std::numeric_limits<Instant>::max();
    for (const auto& each : spans_) {
      for (const auto& span : each.spans.ran) begin_ = std::min(begin_, at(each.spans, span.began));
      for (const auto& span : each.spans.owned)
        begin_ = std::min(begin_, at(each.spans, span.submitted));
      for (const auto& span : each.spans.transfers) {
        begin_ = std::min(begin_, at(each.spans, span.ago + span.moved + span.queued));
      }
    }
    if (begin_ == std::numeric_limits<Instant>::max()) begin_ = 0;
    for (const auto& each : spans_) {
      for (const auto& span : each.spans.owned) owned_.insert(span.task);
    }
    find_makers();
  }

  // Finds the calls that produced transferred objects.
  void find_makers() {
    std::set<ObjectId> moved;
    for (const auto& each : spans_) {
      for (const auto& span : each.spans.transfers) moved.insert(span.object);
    }
    if (moved.empty()) return;
    for (const auto& each : spans_) {
      for (const auto& span : each.spans.owned) {
        for (std::uint32_t i = 0; i < max_results; ++i) {
          const ObjectId result = result_id(span.task, i);
          if (moved.contains(result)) makers_[result] = {&each, &span};
        }
      }
    }
  }

  void name_row(const char* what, int pid, int tid, const std::string& name) {
    events_.push_back(
        {{"ph", "M"}, {"name", what}, {"pid", pid}, {"tid", tid}, {"args", {{"name", name}}}});
  }
  void sort_row(const char* what, int pid, int tid, int index) {
    events_.push_back({{"ph", "M"},
                       {"name", what},
                       {"pid", pid},
                       {"tid", tid},
                       {"args", {{"sort_index", index}}}});
  }
  double us(Instant when) const { return static_cast<double>(when - begin_) / 1000; }

  struct Slice {
    std::string name;
    const char* category;
    Instant begin;
    Instant end;
    Json args;
  };
  void add_slice(const Track& track, int row, Slice slice) {
    const Instant length = std::max<Instant>(slice.end - slice.begin, 0);
    events_.push_back({{"ph", "X"},
                       {"name", std::move(slice.name)},
                       {"cat", slice.category},
                       {"pid", track.node},
                       {"tid", track.first + row},
                       {"ts", us(slice.begin)},
                       {"dur", static_cast<double>(length) / 1000},
                       {"args", std::move(slice.args)}});
  }
  void flow(const char* phase, const Track& track, int row, TaskId task, Instant when) {
    flow(phase, track, row, "call", task.hex(), when);
  }
  void flow(const char* phase, const Track& track, int row, const char* name, const std::string& id,
            Instant when) {
    Json event = {{"ph", phase},   {"name", name},      {"cat", "flow"},
                  {"id", id},      {"pid", track.node}, {"tid", track.first + row},
                  {"ts", us(when)}};
    if (std::string_view(phase) == "f") event["bp"] = "e";
    events_.push_back(std::move(event));
    ++counts_.flows;
  }

  const Track* track_of(ProcessId process) const {
    const auto at = tracks_.find(process);
    return at == tracks_.end() ? nullptr : &at->second;
  }
  static std::string name_of(const SpansReply& spans, std::uint32_t number) {
    return number < spans.names.size() ? spans.names[number] : std::string("?");
  }

  void write_ran(const ProcessSpans& of) {
    const Track* track = track_of(of.process);
    if (track == nullptr || of.spans.ran.empty()) return;
    std::vector<const RanSpan*> spans;
    for (const auto& span : of.spans.ran) spans.push_back(&span);
    std::ranges::stable_sort(spans, std::greater{},
                             [](const RanSpan* each) { return each->began; });
    Lanes lanes;
    for (const RanSpan* span : spans) {
      const Instant begin = at(of.spans, span->began);
      const Instant end = at(of.spans, span->ended);
      const int row = lanes.take(begin, end);
      add_slice(
          *track, row,
          {name_of(of.spans, span->name),
           "run",
           begin,
           end,
           {{"task_id", span->task.hex()}, {"failed", span->failed}, {"job_id", track->job}}});
      ++counts_.ran;
      if (owned_.contains(span->task)) flow("t", *track, row, span->task, begin);
    }
    for (int row = 0; row < lanes.used(); ++row) {
      name_row("thread_name", track->node, track->first + row,
               row == 0 ? track->name : fmt::format("{} ({})", track->name, row + 1));
      sort_row("thread_sort_index", track->node, track->first + row, track->first + row);
    }
  }

  // Waits overlap, so they are pairs of begin and end events that the viewer lays out.
  void write_owned(const ProcessSpans& of) {
    const Track* track = track_of(of.process);
    if (track == nullptr || of.spans.owned.empty()) return;
    for (const auto& span : of.spans.owned) {
      const Instant submitted = at(of.spans, span.submitted);
      const Instant sent = at(of.spans, span.sent);
      const Instant ended = at(of.spans, span.ended);
      const std::string name = name_of(of.spans, span.name);
      add_slice(*track, submits_row,
                {"submit " + name, "submit", submitted, submitted, {{"task_id", span.task.hex()}}});
      wait(*track, span.task, name + ": queued", submitted, sent);
      if (!span.executor.empty()) wait(*track, span.task, name + ": at its executor", sent, ended);
      add_slice(*track, results_row,
                {(span.failed ? "failed " : "result ") + name,
                 "result",
                 ended,
                 ended,
                 {{"task_id", span.task.hex()}}});
      ++counts_.submitted;
      flow("s", *track, submits_row, span.task, submitted);
      flow("f", *track, results_row, span.task, ended);
    }
    for (const auto& [row, what] :
         {std::pair{submits_row, "submits"}, std::pair{results_row, "results"}}) {
      name_row("thread_name", track->node, track->first + row, track->name + ": " + what);
      sort_row("thread_sort_index", track->node, track->first + row, track->first + row);
    }
  }

  void wait(const Track& track, TaskId task, const std::string& name, Instant begin, Instant end) {
    for (const auto& [phase, when] :
         {std::pair{"b", begin}, std::pair{"e", std::max(begin, end)}}) {
      events_.push_back({{"ph", phase},
                         {"name", name},
                         {"cat", "wait"},
                         {"id", task.hex()},
                         {"pid", track.node},
                         {"tid", track.first + submits_row},
                         {"ts", us(when)}});
    }
  }

  void write_transfers(const ProcessSpans& of) {
    const Track* track = track_of(of.process);
    if (track == nullptr || of.spans.transfers.empty()) return;
    std::vector<const TransferFact*> spans;
    for (const auto& span : of.spans.transfers) spans.push_back(&span);
    std::ranges::stable_sort(spans, std::greater{},
                             [](const TransferFact* each) { return each->ago + each->moved; });
    Lanes lanes;
    for (const TransferFact* span : spans) {
      const Instant end = at(of.spans, span->ago);
      const Instant begin = end - span->moved.count();
      const int row = std::min(lanes.take(begin, end), rows_of_process - transfers_row - 1);
      add_slice(
          *track, transfers_row + row,
          {span->group.empty() ? fmt::format("{} {} bytes", to_string(span->path), span->size_bytes)
                               : fmt::format("{} {}", to_string(span->path), span->operation),
           "transfer",
           begin,
           end,
           {{"object_id", span->object.hex()},
            {"bytes", span->size_bytes},
            {"queued_us", static_cast<double>(span->queued.count()) / 1000},
            {"failed", span->failed},
            {"encrypted", span->encrypted},
            {"from", span->holder.empty() ? span->holder_node.hex() : span->holder.hex()},
            {"group", span->group},
            {"sent_bytes", span->sent_bytes}}});
      ++counts_.transfers;
      lead_to_transfer(*track, transfers_row + row, span->object, begin);
    }
    for (int row = 0; row < std::min(lanes.used(), rows_of_process - transfers_row); ++row) {
      name_row("thread_name", track->node, track->first + transfers_row + row,
               track->name + ": transfers");
      sort_row("thread_sort_index", track->node, track->first + transfers_row + row,
               track->first + transfers_row + row);
    }
  }

  // Flows begin where the owner got the result, or at its submission if the bytes moved before.
  void lead_to_transfer(const Track& track, int row, ObjectId object, Instant begin) {
    const auto maker = makers_.find(object);
    if (maker == makers_.end()) return;
    const auto& [owner, span] = maker->second;
    const Track* from = track_of(owner->process);
    const Instant ended = at(owner->spans, span->ended);
    const Instant submitted = at(owner->spans, span->submitted);
    if (from == nullptr || submitted > begin) return;
    const std::string id = fmt::format("{} {}", object.hex(), ++transfer_flows_);
    flow("s", *from, ended <= begin ? results_row : submits_row, "transfer", id,
         ended <= begin ? ended : submitted);
    flow("f", track, row, "transfer", id, begin);
  }

  const std::vector<ProcessSpans>& spans_;
  std::map<ObjectId, std::pair<const ProcessSpans*, const OwnedSpan*>> makers_;
  std::uint64_t transfer_flows_ = 0;
  std::map<ProcessId, Track> tracks_;
  std::map<std::string, int> nodes_;  // by id: number in the trace
  std::map<int, int> next_row_;
  std::set<TaskId> owned_;
  Instant begin_ = 0;
  Json events_ = Json::array();
  TraceCounts counts_;
};

}  // namespace

Trace trace_of(const Json& timeline, const std::vector<ProcessSpans>& spans) {
  return Writer(timeline, spans).write();
}

}  // namespace mobula::internal::cli
