#include "deploy/fleet/provider_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <string_view>
#include <utility>

namespace mobula::internal::fleet {
namespace {

constexpr std::size_t max_error_bytes = 2048;  // kept of the standard error

bool has_event(int fd) {
  pollfd item{fd, POLLIN, 0};
  return ::poll(&item, 1, 0) > 0;
}

// "; stderr: ..." with the last line of the provider's standard error, if it wrote one.
std::string error_tail(const std::string& errors) {
  const auto text = plain_text(errors.size() > 600 ? errors.substr(errors.size() - 600) : errors);
  return text.empty() ? "" : "; stderr: " + text;
}

}  // namespace

ProviderProcess::~ProviderProcess() {
  for (const auto& each : running_) each.process.signal_group(SIGKILL);
}

std::uint64_t ProviderProcess::start(ProviderRequest request) {
  Waiting call{++last_number_, std::move(request)};
  if (waiting_.size() >= options_.max_waiting) {
    replies_.push_back(refused(call, FailureKind::transient,
                               fmt::format("{} calls of the provider wait; the limit is {}",
                                           waiting_.size(), options_.max_waiting)));
    return last_number_;
  }
  waiting_.push_back(std::move(call));
  begin();
  return last_number_;
}

ProviderReply ProviderProcess::refused(const Waiting& call, FailureKind kind,
                                       const std::string& text) const {
  ProviderReply reply{.number = call.number, .call = call.request.call};
  reply.error = ProviderFailure{
      .kind = kind,
      .text = plain_text(fmt::format("provider {}: {}", to_string(call.request.call), text)),
      .retry_after = {}};
  reply.complete = false;
  for (const auto& each : call.request.instances) {
    reply.instances.push_back({.name = each.name, .ref = each.ref, .error = reply.error});
  }
  return reply;
}

void ProviderProcess::begin() {
  while (!waiting_.empty() && running_.size() < options_.max_running) {
    Waiting call = std::move(waiting_.front());
    waiting_.pop_front();
    auto input = text_of(call.request);
    if (input.size() > max_provider_bytes) {
      replies_.push_back(refused(call, FailureKind::invalid,
                                 fmt::format("the request has {} bytes; the limit is {}",
                                             input.size(), max_provider_bytes)));
      continue;
    }
    deploy::Command command;
    command.words = options_.words;
    command.words.emplace_back(to_string(call.request.call));
    command.pipes_input = command.pipes_output = command.pipes_errors = true;
    command.own_group = true;
    command.dies_with_parent = true;
    auto process = deploy::Process::start(command);
    if (!process) {
      const bool absent = process.error().code == ErrorCode::not_found ||
                          process.error().code == ErrorCode::permission_denied;
      replies_.push_back(refused(call, absent ? FailureKind::invalid : FailureKind::transient,
                                 process.error().text));
      continue;
    }
    running_.push_back({.number = call.number,
                        .request = std::move(call.request),
                        .process = std::move(*process),
                        .deadline = monotonic_now() + options_.timeout,
                        .input = std::move(input)});
  }
}

void ProviderProcess::watch(std::vector<pollfd>& items) const {
  const auto add = [&](int fd, short events) {
    if (fd >= 0) items.push_back({fd, events, 0});
  };
  for (const auto& each : running_) {
    add(each.process.input(), POLLOUT);
    add(each.process.output(), POLLIN);
    add(each.process.errors(), POLLIN);
    add(each.process.exit_event(), POLLIN);
  }
  for (const auto& each : killed_) add(each.exit_event(), POLLIN);
}

std::optional<Time> ProviderProcess::next_deadline() const {
  if (!replies_.empty()) return Time();
  std::optional<Time> next;
  for (const auto& each : running_) next = std::min(next.value_or(each.deadline), each.deadline);
  return next;
}

// Moves bytes in all directions until the pipes are full or empty. Returns false if the answer
// exceeds its limit.
bool ProviderProcess::transfer(Running& call) const {
  auto& process = call.process;
  while (process.input() >= 0) {
    const auto left = std::string_view(call.input).substr(call.written);
    if (left.empty()) {
      process.close_input();
      break;
    }
    const auto count = process.give_input(left);
    call.written += count;
    if (count == 0) break;
  }
  if (process.errors() >= 0) call.errors += process.take_errors();
  if (call.errors.size() > max_error_bytes)
    call.errors.erase(0, call.errors.size() - max_error_bytes);
  for (std::string part; process.output() >= 0 && !(part = process.take_output()).empty();) {
    call.output += part;
    if (call.output.size() > options_.max_bytes) return false;
  }
  return true;
}

ProviderReply ProviderProcess::finished(Running& call, int code) const {
  auto reply = judge_provider_reply(call.request, call.output);
  // A program that exits with an error may still report its kind.
  const bool explains = reply.error && call.output.find("\"error\"") != std::string::npos;
  if (code != 0 && !explains) {
    const auto how = code > 128 ? fmt::format("was ended by signal {}", code - 128)
                                : fmt::format("exited with {}", code);
    reply = refused({call.number, call.request}, FailureKind::transient,
                    fmt::format("{} {}{}", options_.words.front(), how, error_tail(call.errors)));
  } else if (reply.error && !call.errors.empty()) {
    reply.error->text = plain_text(reply.error->text + error_tail(call.errors));
  }
  reply.number = call.number;
  return reply;
}

// Returns the reply once the call is over.
std::optional<ProviderReply> ProviderProcess::advance(Running& call, Time now) {
  const bool exited = has_event(call.process.exit_event());
  const auto stop = [&](const std::string& text) {
    call.process.signal_group(SIGKILL);
    return refused({call.number, call.request}, FailureKind::transient,
                   fmt::format("{} {}; it was killed{}", options_.words.front(), text,
                               error_tail(call.errors)));
  };
  if (!transfer(call))
    return stop(fmt::format("wrote more than {} bytes, the limit of a reply", options_.max_bytes));
  if (exited) {
    call.process.signal_group(
        SIGKILL);  // before the exit is reaped, so that no other group has its id
    if (const auto code = call.process.ended()) return finished(call, *code);
  }
  if (now < call.deadline) return std::nullopt;
  return stop(fmt::format("did not reply within {} s", options_.timeout / 1s));
}

std::vector<ProviderReply> ProviderProcess::step(Time now) {
  std::erase_if(killed_, [](deploy::Process& each) { return each.ended().has_value(); });
  auto replies = std::exchange(replies_, {});
  std::vector<Running> left;
  for (auto& each : running_) {
    auto reply = advance(each, now);
    if (!reply) {
      left.push_back(std::move(each));
      continue;
    }
    replies.push_back(std::move(*reply));
    if (!each.process.ended()) killed_.push_back(std::move(each.process));
  }
  running_.swap(left);
  begin();
  for (auto& each : std::exchange(replies_, {})) replies.push_back(std::move(each));
  return replies;
}

}  // namespace mobula::internal::fleet
