#include "sim/checkers/checker_completions.h"

#include "sim/process_role.h"
#include "sim/world.h"

namespace mobula::internal::sim {
namespace {

constexpr std::uint64_t sink = 1;

}  // namespace

client::SubscribeObject CompletionChecker::subscribe(const Process& process, ObjectId object) {
  client::SubscribeObject request;
  request.object = object;
  request.sink = sink;
  request.token = ++last_token_;
  request.fetch_local = request.token % 3 != 0;
  request.held = request.fetch_local && request.token % 2 == 0;
  rows_.emplace(request.token, Row{process.id(), request});
  tokens_[{process.id(), object}].push_back(request.token);
  return request;
}

std::vector<client::UnsubscribeObject> CompletionChecker::unsubscribe(const Process& process,
                                                                      ObjectId object) {
  std::vector<client::UnsubscribeObject> requests;
  const auto at = tokens_.find({process.id(), object});
  if (at == tokens_.end()) return requests;
  for (const std::uint64_t token : at->second) requests.push_back({object, sink, token, false});
  return requests;
}

void CompletionChecker::unsubscribed(const Process& process,
                                     const client::UnsubscribeObject& request) {
  if (rows_.erase(request.token) > 0) forget(process, request.object, request.token);
}

void CompletionChecker::forget(const Process& process, ObjectId object, std::uint64_t token) {
  auto& tokens = tokens_.at({process.id(), object});
  std::erase(tokens, token);
  if (tokens.empty()) tokens_.erase({process.id(), object});
}

bool CompletionChecker::is_ready(const Process& process, const client::SubscribeObject& request) {
  const auto& core = process.client();
  const auto* row = core.object(request.object);
  if (row == nullptr || core.settled(request.object)) return true;
  if (!row->ready || request.held) return false;
  return (!request.fetch_local && row->owned) || row->value->location == core.node();
}

void CompletionChecker::reported(const Process& process, const client::ObjectReported& report) {
  const std::string what = process.name() + ": subscription " + std::to_string(report.token) +
                           " to object " + report.object.brief() + " ";
  const auto at = rows_.find(report.token);
  if (at == rows_.end() || at->second.process != process.id())
    return world_.violation("completions", what + "is reported, and is not open");
  const auto request = at->second.request;
  if (request.object != report.object || request.held != report.held || report.sink != sink)
    return world_.violation("completions", what + "is reported with another object or kind");
  if (!is_ready(process, request))
    return world_.violation("completions", what + "is reported before the object is ready");
  rows_.erase(at);
  forget(process, request.object, report.token);
}

void CompletionChecker::stepped(const Process& process,
                                const std::vector<client::Command>& commands) {
  for (const auto& command : commands) {
    const auto* changed = std::get_if<client::ObjectChanged>(&command);
    if (changed == nullptr) continue;
    const auto at = tokens_.find({process.id(), changed->object});
    if (at == tokens_.end()) continue;
    for (const std::uint64_t token : at->second) {
      if (!is_ready(process, rows_.at(token).request)) continue;
      return world_.violation("completions", process.name() + ": object " +
                                                 changed->object.brief() +
                                                 " is ready, and subscription " +
                                                 std::to_string(token) + " is not reported");
    }
  }
}

void CompletionChecker::process_ended(const Process& process) {
  std::erase_if(rows_, [&](const auto& each) { return each.second.process == process.id(); });
  std::erase_if(tokens_, [&](const auto& each) { return each.first.first == process.id(); });
}

}  // namespace mobula::internal::sim
