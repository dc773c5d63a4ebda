#include "head/core/query/job_log_query.h"

#include <fmt/format.h>

#include <charconv>
#include <vector>

#include "head/core/head_tables.h"
#include "head/core/view/documents.h"
#include "head/core/view/submission_json.h"

namespace mobula::internal::head {
namespace {

constexpr std::uint64_t part_bytes = 256u << 10;

}  // namespace

void JobLogQuery::refuse(LinkId link, std::uint64_t request, ErrorCode code, std::string why) {
  parts_.commands.push_back(ReplyToTool{link, tool_reply(request, failure(code, std::move(why)))});
}

void JobLogQuery::answer(const Question& question, ReadJobLogReply&& part) {
  const SubmissionRow* row = parts_.submissions.find(question.job);
  if (row == nullptr) {
    return refuse(question.link, question.request, ErrorCode::not_found,
                  "the job is no longer remembered");
  }
  Json json = document("JobLog");
  json["job"] = submission_json(*row);
  json["from"] = part.from;
  json["end"] = part.end;
  json["fault"] = part.fault;
  ToolReply reply = tool_reply(question.request, text_of(json));
  reply.bytes = std::move(part.bytes);
  parts_.commands.push_back(ReplyToTool{question.link, std::move(reply)});
}

void JobLogQuery::ask(LinkId link, const ToolRequest& request) {
  const auto job = parts_.submissions.resolve(request.argument);
  if (!job) return refuse(link, request.request, job.error().code, job.error().text);
  std::int64_t from = 0;
  const char* end = request.kind.data() + request.kind.size();
  const auto read = std::from_chars(request.kind.data(), end, from);
  if (!request.kind.empty() && (read.ec != std::errc() || read.ptr != end)) {
    return refuse(link, request.request, ErrorCode::invalid_argument,
                  fmt::format("job_log: '{}' is no offset", request.kind));
  }
  const SubmissionRow& row = *parts_.submissions.find(*job);
  Question question{link, request.request, *job, row.node,
                    parts_.now + parts_.options.list_timeout};
  ReadJobLogReply nothing;
  nothing.from = nothing.end = static_cast<std::uint64_t>(std::max<std::int64_t>(from, 0));
  if (row.node.empty()) return answer(question, std::move(nothing));  // never run
  const Node* node = parts_.nodes.find(row.node);
  if (node == nullptr || node->state == NodeState::dead) {
    nothing.fault = fmt::format(
        "node {}, where it ran, is not there: what it printed cannot be read", row.node.hex());
    return answer(question, std::move(nothing));
  }
  if (questions_.size() >= max_open) {
    return refuse(link, request.request, ErrorCode::resource_exhausted,
                  fmt::format("job_log: {} such questions are open; try again", max_open));
  }
  questions_.emplace(++last_, question);
  parts_.nodes.send(row.node, ReadJobLogRequest{last_, *job, from, part_bytes});
}

void JobLogQuery::told(NodeId node, ReadJobLogReply&& part) {
  const auto at = questions_.find(part.request);
  if (at == questions_.end() || at->second.node != node) return;
  const Question question = at->second;
  questions_.erase(at);
  answer(question, std::move(part));
}

void JobLogQuery::node_died(NodeId node) {
  for (auto at = questions_.begin(); at != questions_.end();) {
    if (at->second.node != node) {
      ++at;
      continue;
    }
    refuse(at->second.link, at->second.request, ErrorCode::timed_out,
           "job_log: the node has died; ask again");
    at = questions_.erase(at);
  }
}

void JobLogQuery::tick() {
  for (auto at = questions_.begin(); at != questions_.end();) {
    if (at->second.until > parts_.now) {
      ++at;
      continue;
    }
    refuse(
        at->second.link, at->second.request, ErrorCode::timed_out,
        fmt::format("job_log: node {} did not answer in time; ask again", at->second.node.hex()));
    at = questions_.erase(at);
  }
}

std::optional<Time> JobLogQuery::next_deadline() const {
  std::optional<Time> due;
  for (const auto& [number, question] : questions_) due = earlier(due, question.until);
  return due;
}

}  // namespace mobula::internal::head
