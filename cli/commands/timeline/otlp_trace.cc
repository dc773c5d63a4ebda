#include "cli/commands/timeline/otlp_trace.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "base/model/trace_parent.h"
#include "base/text/json_writer.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kind_internal = 1;
constexpr int kind_consumer = 5;
constexpr int status_error = 2;

std::string text_in(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
}

Json attribute(const char* key, const std::string& value) {
  return {{"key", key}, {"value", {{"stringValue", value}}}};
}
// OTLP writes integers of 64 bits as text.
Json attribute(const char* key, std::int64_t value) {
  return {{"key", key}, {"value", {{"intValue", fmt::format("{}", value)}}}};
}

std::string at(const SpansReply& spans, Duration ago) {
  return fmt::format("{}", spans.wall_us * 1000 - ago.count());
}

std::string name_of(const SpansReply& spans, std::uint32_t number) {
  return number < spans.names.size() ? spans.names[number] : std::string("?");
}

struct ProcessRow {
  Json resource;
  std::string job;
  bool is_driver = false;
};

std::string span_id(TaskId task) { return task.hex().substr(16); }

// The run of a call, with times in nanoseconds since 1970.
struct Run {
  std::string name;
  int kind = kind_internal;
  std::string begin, end;
  bool failed = false;
};

// A call as its owner recorded it.
struct OwnedCall {
  ProcessId owner;
  const SpansReply* spans = nullptr;
  const OwnedSpan* span = nullptr;
};

class OtlpWriter {
 public:
  OtlpWriter(const Json& timeline, const std::vector<ProcessSpans>& spans, std::size_t max_spans,
             SentSpans& sent)
      : spans_(spans), max_spans_(max_spans), sent_(sent) {
    if (timeline.is_object()) {
      for (const auto& each : timeline.value("processes", Json::array())) add_process(each);
    }
    for (const auto& each : spans_) {
      for (const auto& span : each.spans.owned)
        owned_[span.task] = {each.process, &each.spans, &span};
      const auto row = processes_.find(each.process);
      const auto parent = trace_parent_of(each.spans.trace_parent);
      if (row != processes_.end() && parent) parents_.emplace(row->second.job, *parent);
    }
  }

  std::vector<OtlpBatch> write() {
    for (const auto& each : spans_) {
      begin_resource(each.process);
      for (const auto& span : each.spans.ran) add_ran(each, span);
    }
    for (const auto& each : spans_) {
      begin_resource(each.process);
      for (const auto& span : each.spans.owned) {
        if (!seen_.contains({span.executor, span.task})) add_owned(each, span);
      }
    }
    finish_batch();
    sent_ = std::move(seen_);
    return std::move(batches_);
  }

 private:
  void add_process(const Json& process) {
    const auto id = ProcessId::from_hex(text_in(process, "process_id"));
    if (!id) return;
    ProcessRow row;
    row.job = text_in(process, "job_id");
    row.is_driver = text_in(process, "role") == to_string(Role::driver);
    Json attributes = {attribute("service.name", "mobula"),
                       attribute("host.name", text_in(process, "host")),
                       attribute("mobula.node_id", text_in(process, "node_id")),
                       attribute("mobula.role", text_in(process, "role")),
                       attribute("process.pid", process.value("pid", std::int64_t{0}))};
    row.resource = {{"attributes", std::move(attributes)}};
    processes_[*id] = std::move(row);
  }

  void begin_resource(ProcessId process) {
    finish_resource();
    const auto row = processes_.find(process);
    process_ = row == processes_.end() ? nullptr : &row->second;
  }

  void finish_resource() {
    if (!current_.empty()) {
      Json scope = {{"scope", {{"name", "mobula"}}}, {"spans", std::move(current_)}};
      resources_.push_back({{"resource", process_->resource}, {"scopeSpans", {std::move(scope)}}});
    }
    current_ = Json::array();
  }

  void finish_batch() {
    finish_resource();
    if (count_ == 0) return;
    batches_.push_back({json_text(Json{{"resourceSpans", std::move(resources_)}}), count_});
    resources_ = Json::array();
    count_ = 0;
  }

  // Span id of the task that submitted the call, or of the program that started the driver.
  std::string parent_of(const OwnedCall& call) const {
    const auto owner = processes_.find(call.owner);
    if (owner == processes_.end() || !owner->second.is_driver)
      return call.span->parent.empty() ? std::string() : span_id(call.span->parent);
    const auto parent = parents_.find(owner->second.job);
    return parent == parents_.end() ? std::string() : parent->second.span_id;
  }

  // Appends the span of a call, once per process, unless an earlier export sent it.
  void add(ProcessId process, TaskId task, const Run& run) {
    if (process_ == nullptr || process_->job.size() != 32) return;
    if (!seen_.insert({process, task}).second || sent_.contains({process, task})) return;
    const auto trace = parents_.find(process_->job);
    Json span = {{"traceId", trace == parents_.end() ? process_->job : trace->second.trace_id},
                 {"spanId", span_id(task)},
                 {"name", run.name},
                 {"kind", run.kind},
                 {"startTimeUnixNano", run.begin},
                 {"endTimeUnixNano", run.end},
                 {"attributes", {attribute("mobula.task_id", task.hex())}}};
    if (run.failed) span["status"] = {{"code", status_error}};
    if (const auto call = owned_.find(task); call != owned_.end()) {
      if (const auto parent = parent_of(call->second); !parent.empty())
        span["parentSpanId"] = parent;
      const SpansReply& of_owner = *call->second.spans;
      const OwnedSpan* const owned = call->second.span;
      const auto event = [&](const char* what, Duration ago) {
        span["events"].push_back({{"timeUnixNano", at(of_owner, ago)}, {"name", what}});
      };
      event("submitted", owned->submitted);
      if (!owned->executor.empty()) event("sent", owned->sent);
      event("result received", owned->ended);
    }
    current_.push_back(std::move(span));
    if (++count_ >= max_spans_) finish_batch();
  }

  void add_ran(const ProcessSpans& of, const RanSpan& span) {
    add(of.process, span.task,
        {name_of(of.spans, span.name), kind_consumer, at(of.spans, span.began),
         at(of.spans, span.ended), span.failed});
  }

  // The executor has exited, or the call never ran. The owner knows the run time.
  void add_owned(const ProcessSpans& of, const OwnedSpan& span) {
    const bool ran = span.ran > Duration(0);
    const auto begin = at(of.spans, ran ? span.ended + span.ran : span.submitted);
    add(span.executor, span.task,
        {name_of(of.spans, span.name), ran ? kind_consumer : kind_internal, begin,
         at(of.spans, span.ended), span.failed});
  }

  const std::vector<ProcessSpans>& spans_;
  const std::size_t max_spans_;
  SentSpans& sent_;
  SentSpans seen_;
  std::map<ProcessId, ProcessRow> processes_;
  std::map<TaskId, OwnedCall> owned_;
  std::map<std::string, TraceParent> parents_;  // by job
  const ProcessRow* process_ = nullptr;         // process of the current resource
  Json current_ = Json::array();                // spans of the current resource
  Json resources_ = Json::array();
  std::size_t count_ = 0;  // spans of the current batch
  std::vector<OtlpBatch> batches_;
};

}  // namespace

std::vector<OtlpBatch> otlp_batches(const Json& timeline, const std::vector<ProcessSpans>& spans,
                                    std::size_t max_spans, SentSpans& sent) {
  return OtlpWriter(timeline, spans, max_spans, sent).write();
}

}  // namespace mobula::internal::cli
