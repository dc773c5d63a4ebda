#include "head/core/span_questions.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mark.h"
#include "head/core/asker.h"
#include "head/core/documents.h"

namespace mobula::internal::head {
namespace {

const Mark mark_late("head.span_answer_without_a_process");

}  // namespace

void SpanQuestions::ask(LinkId link, const ToolRequest& request) {
  const auto refuse = [&](ErrorCode code, std::string why) {
    parts_.commands.push_back(ReplyTool{link, tool_reply(request.request, failure(code, std::move(why)))});
  };
  if (questions_.size() >= max_open) {
    return refuse(ErrorCode::resource_exhausted,
                  fmt::format("{} timelines are being gathered; ask again in a moment", questions_.size()));
  }
  JobId job;
  if (!request.argument.empty()) {
    const auto given = JobId::from_hex(request.argument);
    if (!given) return refuse(ErrorCode::invalid_argument, fmt::format("timeline: '{}' is no job's id", request.argument));
    job = *given;
  }
  const std::uint64_t number = ++last_;
  Question question;
  question.link = link;
  question.request = request.request;
  question.until = parts_.now + parts_.options.list_within;
  question.missing = processes_to_ask(parts_, job, question.warnings);
  std::vector<ProcessId> processes;
  for (const auto& [process, name] : question.missing) processes.push_back(process);
  AskSpans asked;
  asked.request = number;
  asked.limit = std::clamp(max_spans / std::max<std::uint64_t>(processes.size(), 1), min_limit, max_limit);
  questions_.emplace(number, std::move(question));
  for (const auto process : processes) parts_.processes.tell(process, asked);
  if (processes.empty()) settle(number);
}

void SpanQuestions::told(ProcessId process, const SpansTold& message) {
  const auto at = questions_.find(message.request);
  if (at == questions_.end() || at->second.missing.erase(process) == 0) return;
  Question& question = at->second;
  const std::size_t bytes = encode(message).size() + 64;
  if (question.bytes + bytes > max_bytes) {
    ++question.left_out;
  } else {
    question.bytes += bytes;
    question.told.emplace(process, message);
  }
  if (question.missing.empty()) settle(message.request);
}

void SpanQuestions::process_ended(ProcessId process) {
  std::vector<std::uint64_t> answered;
  for (auto& [number, question] : questions_) {
    const bool awaited = question.missing.erase(process) != 0;
    if (awaited && question.missing.empty()) answered.push_back(number);
  }
  for (const auto number : answered) settle(number);
}

void SpanQuestions::tick() {
  std::vector<std::uint64_t> late;
  for (const auto& [number, question] : questions_) {
    if (question.until <= parts_.now) late.push_back(number);
  }
  for (const auto number : late) {
    mark_late.hit();
    Question& question = questions_.at(number);
    warn_of_silent(parts_, question.missing, "when its calls were", question.warnings);
    settle(number);
  }
}

std::optional<Time> SpanQuestions::next_deadline() const {
  std::optional<Time> due;
  for (const auto& [number, question] : questions_) due = earlier(due, question.until);
  return due;
}

void SpanQuestions::settle(std::uint64_t number) {
  const auto at = questions_.find(number);
  Question question = std::move(at->second);
  questions_.erase(at);
  Json json = document("Timeline");
  json["processes"] = Json::array();
  std::vector<ProcessSpans> all;
  for (auto& [process, spans] : question.told) {
    const Process* row = parts_.processes.find(process);
    const Node* node = row == nullptr ? nullptr : parts_.nodes.find(row->node);
    json["processes"].push_back({{"process_id", process.hex()},
                                 {"role", row == nullptr ? "process" : std::string(to_string(row->principal.role))},
                                 {"pid", row == nullptr ? 0 : row->pid},
                                 {"job_id", row == nullptr ? Json(nullptr) : id_json(row->principal.job)},
                                 {"node_id", row == nullptr ? Json(nullptr) : id_json(row->node)},
                                 {"host", node == nullptr ? "" : node->host}});
    all.push_back({process, std::move(spans)});
  }
  if (question.left_out > 0) {
    question.warnings.push_back(
        fmt::format("{} processes are left out: an answer has at most {} bytes; name a job", question.left_out, max_bytes));
  }
  json["warnings"] = question.warnings;
  ToolReply reply = tool_reply(question.request, text_of(json));
  reply.bytes = Payload(encode(all));
  parts_.commands.push_back(ReplyTool{question.link, std::move(reply)});
}

}  // namespace mobula::internal::head
