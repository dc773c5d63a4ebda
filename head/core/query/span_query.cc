#include "head/core/query/span_query.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "head/core/query/query_source.h"
#include "head/core/view/documents.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_late_spans("head.span_answer_without_a_process");
const CoverageMark mark_too_large("head.spans_of_an_ended_process_too_large");

}  // namespace

void SpanQuery::ask(LinkId link, const ToolRequest& request) {
  const auto refuse = [&](ErrorCode code, std::string why) {
    parts_.commands.push_back(
        ReplyToTool{link, tool_reply(request.request, failure(code, std::move(why)))});
  };
  if (questions_.size() >= max_open) {
    return refuse(
        ErrorCode::resource_exhausted,
        fmt::format("{} timelines are being gathered; ask again in a moment", questions_.size()));
  }
  JobId job;
  if (!request.argument.empty()) {
    const auto given = JobId::from_hex(request.argument);
    if (!given)
      return refuse(ErrorCode::invalid_argument,
                    fmt::format("timeline: '{}' is no job's id", request.argument));
    job = *given;
  }
  TaskId task;
  if (!request.kind.empty()) {
    const auto given = TaskId::from_hex(request.kind);
    if (!given)
      return refuse(ErrorCode::invalid_argument,
                    fmt::format("timeline: '{}' is no task's id", request.kind));
    task = *given;
  }
  const std::uint64_t number = ++last_;
  Question question;
  question.link = link;
  question.request = request.request;
  question.until = parts_.now + parts_.options.list_timeout;
  question.job = job;
  question.task = task;
  question.missing = processes_to_ask(parts_, job, question.warnings);
  // A query for one task concerns the lines that it printed, not its transfers.
  if (task.empty()) add_agents(parts_, question.missing, question.warnings);
  std::vector<ProcessId> processes;
  for (const auto& [process, name] : question.missing) processes.push_back(process);
  SpansRequest asked;
  asked.request = number;
  asked.limit =
      std::clamp(max_spans / std::max<std::uint64_t>(processes.size(), 1), min_limit, max_limit);
  asked.task = task;
  asked.job = job;
  questions_.emplace(number, std::move(question));
  ask_each(parts_, processes, asked);
  if (processes.empty()) settle(number);
}

SpanQuery::Teller SpanQuery::teller_of(ProcessId teller, NodeId id) const {
  const Node* node = parts_.nodes.find(id);
  const std::string host = node == nullptr ? std::string() : node->host;
  if (const Process* row = parts_.processes.find(teller))
    return {row->principal.role, row->pid, row->principal.job, id, host, false};
  return {node == nullptr ? Role::unproven : node->role, 0, {}, id, host, false};
}

// A process reports its last spans once. If it repeats them, the last report counts.
void SpanQuery::keep(ProcessId process, NodeId node, const SpansReply& message) {
  const std::size_t bytes = encode(message).size() + 256;
  if (bytes > max_ended_each) {
    mark_too_large.hit();
    ++ended_forgotten_;
    return;
  }
  const auto forget = [&](const Ended& each) { ended_bytes_ -= each.bytes; };
  if (const auto before = std::ranges::find(ended_, process, &Ended::process);
      before != ended_.end()) {
    forget(*before);
    ended_.erase(before);
  }
  ended_.push_back({process, teller_of(process, node), message, bytes});
  ended_.back().teller.ended = true;
  ended_bytes_ += bytes;
  while (ended_.size() > max_ended || ended_bytes_ > max_ended_bytes) {
    forget(ended_.front());
    ended_.pop_front();
    ++ended_forgotten_;
  }
}

void SpanQuery::told(ProcessId teller, NodeId node, const SpansReply& message) {
  if (message.request == 0) return keep(teller, node, message);
  const auto at = questions_.find(message.request);
  if (at == questions_.end() || at->second.missing.erase(teller) == 0) return;
  Question& question = at->second;
  const std::size_t bytes = encode(message).size() + 64;
  if (question.bytes + bytes > max_bytes) {
    ++question.left_out;
  } else {
    question.bytes += bytes;
    question.told.emplace(teller, std::pair(teller_of(teller, node), message));
  }
  if (question.missing.empty()) settle(message.request);
}

void SpanQuery::process_ended(ProcessId process) {
  std::vector<std::uint64_t> answered;
  for (auto& [number, question] : questions_) {
    const bool awaited = question.missing.erase(process) != 0;
    if (awaited && question.missing.empty()) answered.push_back(number);
  }
  for (const auto number : answered) settle(number);
}

void SpanQuery::tick() {
  std::vector<std::uint64_t> late;
  for (const auto& [number, question] : questions_) {
    if (question.until <= parts_.now) late.push_back(number);
  }
  for (const auto number : late) {
    mark_late_spans.hit();
    Question& question = questions_.at(number);
    warn_of_silent(parts_, question.missing, "when its calls were", question.warnings);
    settle(number);
  }
}

std::optional<Time> SpanQuery::next_deadline() const {
  std::optional<Time> due;
  for (const auto& [number, question] : questions_) due = earlier(due, question.until);
  return due;
}

void SpanQuery::settle(std::uint64_t number) {
  const auto at = questions_.find(number);
  Question question = std::move(at->second);
  questions_.erase(at);
  Json json = document("Timeline");
  json["processes"] = Json::array();
  std::vector<ProcessSpans> all;
  const auto add = [&](ProcessId process, const Teller& teller, SpansReply spans) {
    const bool known = teller.role != Role::unproven;
    json["processes"].push_back({{"process_id", process.hex()},
                                 {"role", known ? std::string(to_string(teller.role)) : "process"},
                                 {"pid", teller.pid},
                                 {"job_id", id_json(teller.job)},
                                 {"node_id", id_json(teller.node)},
                                 {"host", teller.host},
                                 {"ended", teller.ended}});
    all.push_back({process, std::move(spans)});
  };
  for (auto& [process, told] : question.told) {
    const bool of_agent = told.first.role == Role::agent || told.first.role == Role::driver_agent;
    if (of_agent && told.second.transfers.empty() && told.second.transfers_forgotten == 0) continue;
    add(process, told.first, std::move(told.second));
  }
  // The latest processes come first, within the size limit.
  for (auto each = ended_.rbegin(); each != ended_.rend(); ++each) {
    const bool of_job =
        question.job.empty() || each->teller.job.empty() || each->teller.job == question.job;
    const bool has = question.task.empty() ||
                     std::ranges::find(each->spans.ran, question.task, &RanSpan::task) !=
                         each->spans.ran.end() ||
                     std::ranges::find(each->spans.owned, question.task, &OwnedSpan::task) !=
                         each->spans.owned.end();
    if (!of_job || !has || question.told.contains(each->process)) continue;
    if (question.bytes + each->bytes > max_bytes) {
      ++question.left_out;
      continue;
    }
    question.bytes += each->bytes;
    SpansReply spans = each->spans;
    std::erase_if(spans.transfers, [&](const TransferFact& fact) {
      return !question.job.empty() && !fact.job.empty() && fact.job != question.job;
    });
    add(each->process, each->teller, std::move(spans));
  }
  if (ended_forgotten_ > 0 && question.task.empty()) {
    question.warnings.push_back(fmt::format(
        "of {} processes that have ended only what the owners of their calls know is left: "
        "the head keeps {} bytes, {} of one process",
        ended_forgotten_, max_ended_bytes, max_ended_each));
  }
  if (question.left_out > 0) {
    question.warnings.push_back(
        fmt::format("{} processes are left out: an answer has at most {} bytes; name a job",
                    question.left_out, max_bytes));
  }
  json["warnings"] = question.warnings;
  ToolReply reply = tool_reply(question.request, text_of(json));
  reply.bytes = Payload(encode(all));
  parts_.commands.push_back(ReplyToTool{question.link, std::move(reply)});
}

}  // namespace mobula::internal::head
