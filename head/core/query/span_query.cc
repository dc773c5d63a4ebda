#include "head/core/query/span_query.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "head/core/query/query_source.h"
#include "head/core/view/documents.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_late_spans("head.span_reply_without_a_process");
const CoverageMark mark_too_large("head.spans_of_an_ended_process_too_large");

}  // namespace

void SpanQuery::start(LinkId link, const ToolRequest& request) {
  const auto refuse = [&](ErrorCode code, std::string why) {
    tables_.commands.push_back(
        ReplyToTool{link, tool_reply(request.request, failure(code, std::move(why)))});
  };
  if (queries_.is_full()) {
    return refuse(
        ErrorCode::resource_exhausted,
        fmt::format("{} timelines are being gathered; retry in a moment", queries_.size()));
  }
  JobId job;
  if (!request.argument.empty()) {
    const auto given = JobId::from_hex(request.argument);
    if (!given)
      return refuse(ErrorCode::invalid_argument,
                    fmt::format("timeline: '{}' is not a job's id", request.argument));
    job = *given;
  }
  TaskId task;
  if (!request.kind.empty()) {
    const auto given = TaskId::from_hex(request.kind);
    if (!given)
      return refuse(ErrorCode::invalid_argument,
                    fmt::format("timeline: '{}' is not a task's id", request.kind));
    task = *given;
  }
  Question question;
  question.link = link;
  question.request = request.request;
  question.job = job;
  question.task = task;
  QueryTargets targets = processes_to_query(tables_, {.job = job}, question.warnings);
  // A query for one task concerns the lines that it printed, not its transfers.
  if (task.empty()) add_agents(tables_, targets, question.warnings);
  SpansRequest query;
  query.request = queries_.next_number();
  query.limit =
      std::clamp(max_spans / std::max<std::uint64_t>(targets.size(), 1), min_limit, max_limit);
  query.task = task;
  query.job = job;
  auto finished = queries_.add(query.request, std::move(question), std::move(targets),
                               tables_.now + tables_.options.list_timeout,
                               [&](ProcessId each) { send_to(tables_, each, query); });
  if (finished) settle(std::move(*finished));
}

SpanQuery::Sender SpanQuery::sender_of(ProcessId sender, NodeId id) const {
  const Node* node = tables_.nodes.find(id);
  const std::string host = node == nullptr ? std::string() : node->host;
  if (const Process* row = tables_.processes.find(sender))
    return {row->principal.role, row->pid, row->principal.job, id, host, false};
  return {node == nullptr ? Role::unproven : node->role, 0, {}, id, host, false};
}

// A process reports its last spans once. If it repeats them, the last report counts.
void SpanQuery::store(ProcessId process, NodeId node, const SpansReply& message) {
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
  ended_.push_back({process, sender_of(process, node), message, bytes});
  ended_.back().sender.ended = true;
  ended_bytes_ += bytes;
  while (ended_.size() > max_ended || ended_bytes_ > max_ended_bytes) {
    forget(ended_.front());
    ended_.pop_front();
    ++ended_forgotten_;
  }
}

void SpanQuery::on(ProcessId sender, NodeId node, const SpansReply& message) {
  if (message.request == 0) return store(sender, node, message);
  Question* question = queries_.accept_reply(message.request, sender);
  if (question == nullptr) return;
  const std::size_t bytes = encode(message).size() + 64;
  if (question->bytes + bytes > max_bytes) {
    ++question->left_out;
  } else {
    question->bytes += bytes;
    question->replies.emplace(sender, std::pair(sender_of(sender, node), message));
  }
  auto finished = queries_.finish_if_complete(message.request);
  if (finished) settle(std::move(*finished));
}

void SpanQuery::process_ended(ProcessId process) {
  for (auto& finished : queries_.remove_target(process)) settle(std::move(finished));
}

void SpanQuery::tick() {
  for (auto& late : queries_.expire(tables_.now)) {
    mark_late_spans.hit();
    settle(std::move(late));
  }
}

std::optional<Time> SpanQuery::next_deadline() const { return queries_.next_deadline(); }

void SpanQuery::settle(Queries::Finished&& finished) {
  Question& question = finished.query;
  warn_of_silent(tables_, finished.silent, "when its calls were", question.warnings);
  Json json = document("Timeline");
  json["processes"] = Json::array();
  std::vector<ProcessSpans> all;
  const auto add = [&](ProcessId process, const Sender& sender, SpansReply spans) {
    const bool known = sender.role != Role::unproven;
    json["processes"].push_back({{"process_id", process.hex()},
                                 {"role", known ? std::string(to_string(sender.role)) : "process"},
                                 {"pid", sender.pid},
                                 {"job_id", id_json(sender.job)},
                                 {"node_id", id_json(sender.node)},
                                 {"host", sender.host},
                                 {"ended", sender.ended}});
    all.push_back({process, std::move(spans)});
  };
  for (auto& [process, reply] : question.replies) {
    const bool of_agent = reply.first.role == Role::agent || reply.first.role == Role::driver_agent;
    if (of_agent && reply.second.transfers.empty() && reply.second.transfers_forgotten == 0)
      continue;
    add(process, reply.first, std::move(reply.second));
  }
  // The latest processes come first, within the size limit.
  for (auto each = ended_.rbegin(); each != ended_.rend(); ++each) {
    const bool of_job =
        question.job.empty() || each->sender.job.empty() || each->sender.job == question.job;
    const bool has = question.task.empty() ||
                     std::ranges::find(each->spans.ran, question.task, &RanSpan::task) !=
                         each->spans.ran.end() ||
                     std::ranges::find(each->spans.owned, question.task, &OwnedSpan::task) !=
                         each->spans.owned.end();
    if (!of_job || !has || question.replies.contains(each->process)) continue;
    if (question.bytes + each->bytes > max_bytes) {
      ++question.left_out;
      continue;
    }
    question.bytes += each->bytes;
    SpansReply spans = each->spans;
    std::erase_if(spans.transfers, [&](const TransferFact& fact) {
      return !question.job.empty() && !fact.job.empty() && fact.job != question.job;
    });
    add(each->process, each->sender, std::move(spans));
  }
  if (ended_forgotten_ > 0 && question.task.empty()) {
    question.warnings.push_back(fmt::format(
        "of {} processes that have ended only what the owners of their calls know is left: "
        "the head stores {} bytes, {} of one process",
        ended_forgotten_, max_ended_bytes, max_ended_each));
  }
  if (question.left_out > 0) {
    question.warnings.push_back(
        fmt::format("{} processes are left out: a reply has at most {} bytes; name a job",
                    question.left_out, max_bytes));
  }
  json["warnings"] = question.warnings;
  ToolReply reply = tool_reply(question.request, json_text(json));
  reply.bytes = Payload(encode(all));
  tables_.commands.push_back(ReplyToTool{question.link, std::move(reply)});
}

}  // namespace mobula::internal::head
