#include "cli/commands/nodes/drain_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "base/time.h"
#include "cli/commands/nodes/drain_report.h"
#include "cli/exit_code.h"
#include "cli/head_query.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration end_timeout = 5s;  // time for work that was ended at the deadline
constexpr Duration poll_interval = 200ms;
constexpr Duration say_interval = 10s;  // if nothing changes
// Latency of an answer after which the head may have restarted and counts the deadline again.
constexpr Duration head_was_away = 2s;

void on_interrupt(int) {
  constexpr char words[] = "\nmobula: the drain continues; `mobula undrain` reverts it\n";
  (void)!::write(STDERR_FILENO, words, sizeof words - 1);
  std::_Exit(exit_interrupted);
}

// Returns the complete id of a node from a prefix.
Result<std::string> node_id_of(HeadQuery& query, const std::string& given) {
  auto node = query.request("get", "node", given);
  if (!node) return node.error();
  return node->value("node_id", given);
}

struct Lists {
  Json submissions, actors;
};

Result<Lists> lists_of(HeadQuery& query) {
  auto submissions = query.request_patiently("list", "submissions");
  if (!submissions) return submissions.error();
  auto actors = query.request_patiently("list", "actors");
  if (!actors) return actors.error();
  return Lists{std::move(*submissions), std::move(*actors)};
}

void pass_warnings_on(const Json& document) {
  for (const auto& each : document.value("warnings", Json::array())) {
    if (each.is_string()) warn(each.get<std::string>());
  }
}

// Reports the remaining work on stderr: on a terminal in one line, otherwise on changes and
// periodically.
class News {
 public:
  explicit News(const CommandLine& line)
      : wanted_(for_people(line) && line.progress), on_terminal_(wanted_) {}
  void say(const LeaseCount& left, Duration until_deadline) {
    const std::string text =
        fmt::format("{}; {} s until the deadline", words_of(left), seconds_of(until_deadline));
    if (::isatty(STDERR_FILENO) == 1) return on_terminal_.show(text);
    say(text, left.all);
  }
  void say(const ObjectsMoved& objects, Duration until_deadline) {
    if (::isatty(STDERR_FILENO) == 1) {
      const std::string what =
          fmt::format("{}, {} s until the deadline", objects.words(), seconds_of(until_deadline));
      return on_terminal_.show_bytes(what, objects.copied_bytes(), objects.all_bytes());
    }
    say(fmt::format("{}; {} s until the deadline", objects.words(), seconds_of(until_deadline)),
        -2);
  }

 private:
  static std::int64_t seconds_of(Duration span) {
    return std::max<std::int64_t>(0, std::chrono::ceil<std::chrono::seconds>(span).count());
  }
  void say(const std::string& text, std::int64_t count) {
    const Time now = monotonic_now();
    if (!wanted_ || (count == said_ && now < next_)) return;
    said_ = count;
    next_ = now + say_interval;
    std::fprintf(stderr, "mobula: %s\n", text.c_str());
  }

  const bool wanted_;
  Progress on_terminal_;
  std::int64_t said_ = -1;
  Time next_;
};

// Waits until the node is empty, or until the deadline has passed and the work that it ended is
// gone. Returns the remaining work.
Result<LeaseCount> wait_until_empty(HeadQuery& query, const std::string& node,
                                    const CommandLine& line, Duration timeout,
                                    ObjectsMoved& objects) {
  Time deadline = monotonic_now() + timeout;
  News news(line);
  for (bool first = true;; first = false) {
    const Time sent_at = monotonic_now();
    const auto leases = query.request_patiently("list", "leases");
    if (!leases) return leases.error();
    const LeaseCount left = leases_on(node, *leases);
    if (left.all == 0 || first) {
      const auto memory = query.request_patiently("list", "memory");
      if (!memory) return memory.error();
      objects.seen(node, *memory);
    }
    const Time now = monotonic_now();
    if (now - sent_at > head_was_away) deadline = now + timeout;
    if (line.seconds < 0 || (left.all == 0 && (objects.left() == 0 || now >= deadline)))
      return left;
    if (left.all == 0) {
      news.say(objects, deadline - now);
      pause(poll_interval);
      continue;
    }
    if (now >= deadline + end_timeout) {
      return failure(
          ErrorCode::timed_out,
          fmt::format("drain node {}: {} leases remain after the end of their grace of {} s; check "
                      "`mobula list leases` and the agent's log",
                      node, left.all, line.seconds));
    }
    news.say(left, deadline - now);
    pause(poll_interval);
  }
}

}  // namespace

int drain(const CommandLine& line) {
  HeadQuery query(line);
  const auto node = node_id_of(query, line.subject);
  if (!node) return complain(node.error());
  // Work that starts between the two reads is in the second, work that ends is in the first.
  NodeLoad before;
  const auto first = lists_of(query);
  if (!first) return complain(first.error());
  before.add(*node, first->submissions, first->actors);
  const auto timeout = Duration(static_cast<std::int64_t>(line.seconds * 1e9));
  const auto within_ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
  const auto drained =
      query.request("drain", line.seconds < 0 ? "" : fmt::format("{}", within_ms), *node);
  if (!drained) return complain(drained.error());
  if (line.console_link == nullptr) std::signal(SIGINT, on_interrupt);
  if (for_people(line)) pass_warnings_on(*drained);
  const auto second = lists_of(query);
  if (!second) return complain(second.error());
  before.add(*node, second->submissions, second->actors);

  ObjectsMoved objects;
  const auto left = wait_until_empty(query, *node, line, timeout, objects);
  if (!left && left.error().code != ErrorCode::timed_out) return complain(left.error());
  const auto now = lists_of(query);
  const auto item = query.request_patiently("get", "node", *node);
  const auto drain = item ? item->value("drain", Json::object()) : Json::object();
  if (!now) return complain(now.error());
  const DrainReport report(*node, before, now->submissions, now->actors,
                           drain.value("ended_leases", std::int64_t{0}));
  if (!left) {
    if (for_people(line)) print(report.text());
    return complain(left.error());
  }
  if (for_people(line))
    return print(fmt::format("Node {} is draining: {}.\n{}{}", *node, words_of(*left),
                             report.text(), objects.text()));
  Json document = *drained;
  document["node_id"] = *node;
  document["left_leases"] = left->all;
  document.update(report.json());
  document["objects"] = objects.json();
  return print(document, line);
}

int undrain(const CommandLine& line) {
  HeadQuery query(line);
  const auto node = node_id_of(query, line.subject);
  if (!node) return complain(node.error());
  const auto done = query.request("undrain", {}, *node);
  if (!done) return complain(done.error());
  if (!for_people(line)) return print(*done, line);
  const bool was_draining = done->value("warnings", Json::array()).empty();
  return print(
      was_draining
          ? fmt::format("Node {} is schedulable again. Moved and ended work is not restored.\n",
                        *node)
          : fmt::format("Node {} was not draining.\n", *node));
}

}  // namespace mobula::internal::cli
