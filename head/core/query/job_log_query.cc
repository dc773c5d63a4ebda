#include "head/core/query/job_log_query.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "head/core/head_tables.h"
#include "head/core/view/documents.h"
#include "head/core/view/requests/submission_json.h"

namespace mobula::internal::head {
namespace {

constexpr std::uint64_t log_chunk_bytes = 256u << 10;

}  // namespace

void JobLogQuery::refuse(LinkId link, std::uint64_t request, ErrorCode code, std::string why) {
  tables_.commands.push_back(ReplyToTool{link, tool_reply(request, failure(code, std::move(why)))});
}

void JobLogQuery::answer(const Question& question, ReadJobLogReply&& log) {
  const SubmissionRow* row = tables_.submissions.find(question.job);
  if (row == nullptr) {
    return refuse(question.link, question.request, ErrorCode::not_found,
                  "the job is no longer remembered");
  }
  Json json = document("JobLog");
  json["job"] = submission_json(*row);
  json["from"] = log.from;
  json["end"] = log.end;
  json["fault"] = log.fault;
  ToolReply reply = tool_reply(question.request, json_text(json));
  reply.bytes = std::move(log.bytes);
  tables_.commands.push_back(ReplyToTool{question.link, std::move(reply)});
}

void JobLogQuery::start(LinkId link, const ToolRequest& request) {
  const auto job = tables_.submissions.resolve(request.argument);
  if (!job) return refuse(link, request.request, job.error().code, job.error().text);
  std::int64_t from = 0;
  const char* end = request.kind.data() + request.kind.size();
  const auto read = std::from_chars(request.kind.data(), end, from);
  if (!request.kind.empty() && (read.ec != std::errc() || read.ptr != end)) {
    return refuse(link, request.request, ErrorCode::invalid_argument,
                  fmt::format("job_log: '{}' is not an offset", request.kind));
  }
  const SubmissionRow& row = *tables_.submissions.find(*job);
  Question question{link, request.request, *job, row.node};
  ReadJobLogReply nothing;
  nothing.from = nothing.end = static_cast<std::uint64_t>(std::max<std::int64_t>(from, 0));
  if (row.node.empty()) return answer(question, std::move(nothing));  // never run
  const Node* node = tables_.nodes.find(row.node);
  if (node == nullptr || node->state == NodeState::dead) {
    nothing.fault = fmt::format("node {}, where it ran, is not there: its output cannot be read",
                                row.node.hex());
    return answer(question, std::move(nothing));
  }
  if (queries_.is_full()) {
    return refuse(link, request.request, ErrorCode::resource_exhausted,
                  fmt::format("job_log: {} such questions are open; try again", max_open));
  }
  const std::uint64_t number = queries_.next_number();
  const ReadJobLogRequest query{number, *job, from, log_chunk_bytes};
  (void)queries_.add(number, std::move(question), {{row.node, row.node.hex()}},
                     tables_.now + tables_.options.list_timeout,
                     [&](NodeId each) { tables_.nodes.send(each, query); });
}

void JobLogQuery::on(NodeId node, ReadJobLogReply&& log) {
  if (queries_.accept_reply(log.request, node) == nullptr) return;
  const auto finished = queries_.finish_if_complete(log.request);
  answer(finished->query, std::move(log));
}

void JobLogQuery::node_died(NodeId node) {
  for (const auto& [question, silent] : queries_.remove_target(node)) {
    refuse(question.link, question.request, ErrorCode::timed_out,
           "job_log: the node has died; retry");
  }
}

void JobLogQuery::tick() {
  for (const auto& [question, silent] : queries_.expire(tables_.now)) {
    refuse(question.link, question.request, ErrorCode::timed_out,
           fmt::format("job_log: node {} did not reply in time; retry", question.node.hex()));
  }
}

std::optional<Time> JobLogQuery::next_deadline() const { return queries_.next_deadline(); }

}  // namespace mobula::internal::head
