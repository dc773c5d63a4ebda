#include "head/core/query/change_poll.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "head/core/head_tables.h"
#include "head/core/query/query_source.h"
#include "head/core/view/documents.h"

namespace mobula::internal::head {
namespace {

std::int64_t number_of(const std::string& text) {
  std::int64_t number = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

void ChangePoll::start(LinkId link, const ToolRequest& request) {
  const auto wait =
      std::clamp<Duration>(std::clamp<std::int64_t>(number_of(request.argument), 0, 60'000) * 1ms,
                           Duration(0), max_wait);
  const bool seen = request.kind == fmt::format("{}:{}", tables_.epoch, tables_.changes);
  if (!seen || wait == Duration(0) || polls_.size() >= max_polls) {
    return answer(link, request.request);
  }
  polls_.push_back({link, request.request, tables_.changes, tables_.now + wait});
}

void ChangePoll::answer(LinkId link, std::uint64_t request) const {
  Json json = document("Changes");
  json["epoch"] = tables_.epoch;
  json["number"] = tables_.changes;
  json["autoscaler_orders"] = tables_.fleet.has_orders();
  tables_.commands.push_back(ReplyToTool{link, tool_reply(request, json_text(json))});
}

void ChangePoll::settle() {
  if (polls_.empty()) return;
  std::erase_if(polls_, [this](const Poll& poll) {
    const bool moved = poll.number != tables_.changes;
    if (moved) answer(poll.link, poll.request);
    return moved;
  });
}

void ChangePoll::tick() {
  std::erase_if(polls_, [this](const Poll& poll) {
    const bool over = poll.deadline <= tables_.now;
    if (over) answer(poll.link, poll.request);
    return over;
  });
}

std::optional<Time> ChangePoll::next_deadline() const {
  std::optional<Time> next;
  for (const auto& poll : polls_) next = earlier(next, std::optional(poll.deadline));
  return next;
}

}  // namespace mobula::internal::head
