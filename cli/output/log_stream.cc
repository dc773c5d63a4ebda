#include "cli/output/log_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "cli/exit_code.h"
#include "protocol/messages/output_label_line.h"

namespace mobula::internal::cli {
namespace {

constexpr std::uint64_t near_end_bytes = 1u << 20;
constexpr std::uint64_t bytes_of_a_line = 4096;  // estimate for tails
// The begin of a run that the head reports is rounded. Attempts of a task share its digits.
constexpr std::int64_t label_tolerance_us = 10'000;

bool write_line(const std::string& line) {
  return std::fwrite(line.data(), 1, line.size(), stdout) == line.size();
}

// The prefix that an agent writes before each line: "… [name task=0123456789abcdef pid=12] ". Task
// and pid are those before the first end of a prefix, because a printed line may contain another.
struct LineOrigin {
  std::string_view task;  // empty: the line does not name one
  std::string_view pid;
};
LineOrigin origin_of(std::string_view line) {
  constexpr std::string_view pid_mark = " pid=";
  constexpr std::string_view task_mark = " task=";
  for (auto at = line.find(pid_mark); at != std::string_view::npos;
       at = line.find(pid_mark, at + 1)) {
    const auto begin = at + pid_mark.size();
    const auto end = line.find_first_not_of("0123456789", begin);
    if (end == begin || end == std::string_view::npos || line.substr(end, 2) != "] ") continue;
    const auto name = line.substr(0, at);
    const auto task = name.rfind(task_mark);
    const auto digits =
        task == std::string_view::npos ? std::string_view() : name.substr(task + task_mark.size());
    const bool is_task = digits.size() == log_digits(TaskId::of(1)).size() &&
                         digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
    return {is_task ? digits : std::string_view(), line.substr(begin, end - begin)};
  }
  return {};
}

}  // namespace

bool is_of(const std::string& line, const LinesWanted& wanted) {
  const auto time = time_of_line(line);
  const LineOrigin origin = origin_of(line);
  if (!time || (wanted.pid != 0 && origin.pid != std::to_string(wanted.pid))) return false;
  if (!wanted.task.empty() && !origin.task.empty())
    return origin.task == wanted.task && *time >= wanted.from_us - label_tolerance_us;
  return *time >= wanted.from_us && *time <= wanted.to_us;
}

Result<LogStream> LogStream::create(const CommandLine& line, std::optional<LinesWanted> wanted) {
  if (auto pattern = LogLines::create({line.grep, false, -1}, {}); !pattern) return pattern.error();
  LogStream stream(line, wanted);
  // Lines that arrive here are printable and filtered.
  auto out = LogLines::create({{}, true, line.tail}, write_line);
  if (!out) return out.error();
  stream.out_ = std::make_unique<LogLines>(std::move(*out));
  stream.merge_ = std::make_unique<LogMerge>(LogMerge::Sink());
  return stream;
}

void LogStream::add(std::string name, LogSource source) {
  auto log = std::make_unique<Log>(Log{.name = std::move(name), .source = std::move(source)});
  const std::size_t number = merge_->add();
  const auto add_line = [merge = merge_.get(), number](const std::string& text) {
    merge->take(number, text);
    return true;
  };
  if (auto lines = LogLines::create({line_->grep, line_->raw, -1}, add_line))
    log->lines.emplace(std::move(*lines));
  log->lines->settle(true);
  const bool all = line_->tail < 0 || !line_->grep.empty() || wanted_;
  if (!all) {
    log->wanted =
        std::max(near_end_bytes, static_cast<std::uint64_t>(line_->tail) * bytes_of_a_line);
    log->source.begin_near_end(log->wanted);
  }
  logs_.push_back(std::move(log));
}

bool LogStream::has(const std::string& name) const {
  return std::ranges::any_of(logs_, [&](const auto& each) { return each->name == name; });
}

bool LogStream::is_wanted(const std::string& text) const {
  if (!wanted_) return true;
  return is_of(text, *wanted_);
}

// Reads one chunk and passes its lines to the merge. Returns false if the log cannot be read any
// more.
bool LogStream::read(std::size_t number) {
  Log& log = *logs_[number];
  const auto chunk = log.source.next();
  if (!chunk) {
    log.failed = true;
    log.open = false;
    const std::string of = names_ ? log.name + ": " : std::string();
    code_ = complain(failure(chunk.error().code, of + chunk.error().text));
    return false;
  }
  if (const auto lost = log.lost.add(chunk->lost_bytes)) {
    const std::string bytes =
        chunk->lost_bytes == 1 ? "some lines are" : fmt::format("{} bytes are", *lost);
    std::fprintf(stderr, "mobula: %s%s no longer stored\n", names_ ? (log.name + ": ").c_str() : "",
                 bytes.c_str());
  }
  std::string_view bytes = chunk->bytes;
  log.read_bytes = bytes.size();
  // A tail may begin in the middle of a line.
  if (const auto begun_at = std::exchange(log.wanted, 0);
      begun_at > 0 && bytes.size() + chunk->left >= begun_at)
    log.cut = true;
  if (log.cut) {
    const auto end = bytes.find('\n');
    bytes.remove_prefix(end == std::string_view::npos ? bytes.size() : end + 1);
    log.cut = end == std::string_view::npos;
  }
  log.left = chunk->left;
  log.open = chunk->open;
  log.lines->take(bytes);
  if (!log.open && log.left == 0) log.lines->settle(false);
  return true;
}

bool LogStream::give() {
  LogMerge& merge = *merge_;
  merge.set_sink([this](std::size_t log, const std::string& text) {
    if (!is_wanted(text)) return true;
    taken_ = out_->take(names_ ? logs_[log]->name + ": " + text : text);
    return taken_;
  });
  return merge.give() && taken_;
}

bool LogStream::any_works() const {
  return logs_.empty() ||
         std::ranges::any_of(logs_, [](const auto& each) { return !each->failed; });
}

bool LogStream::open() const {
  return std::ranges::any_of(logs_, [](const auto& each) { return each->open; });
}

bool LogStream::print_all() {
  // Limits a log that grows as fast as it is read to its initial size.
  std::vector<std::uint64_t> remaining(logs_.size(), 1);
  std::vector<bool> begun(logs_.size(), false);
  for (bool all_done = false; !all_done;) {
    all_done = true;
    for (std::size_t i = 0; i < logs_.size(); ++i) {
      if (remaining[i] == 0 || merge_->has_line(i)) {
        all_done = all_done && remaining[i] == 0;
        continue;
      }
      const bool works = read(i);
      const Log& log = *logs_[i];
      if (!works || log.read_bytes == 0)
        remaining[i] = 0;
      else if (!begun[i])
        remaining[i] = log.left;
      else
        remaining[i] = std::min(log.left, remaining[i] - std::min(remaining[i], log.read_bytes));
      begun[i] = true;
      merge_->is_silent(i, remaining[i] == 0);
      all_done = all_done && remaining[i] == 0;
    }
    if (!give()) return false;
  }
  if (!line_->follow) {
    // Incomplete last lines.
    for (std::size_t i = 0; i < logs_.size(); ++i) {
      logs_[i]->lines->settle(false);
      merge_->is_silent(i, true);
    }
    if (!give()) return false;
  }
  if (!out_->settle(line_->follow)) return false;
  std::fflush(stdout);
  return any_works() && std::ferror(stdout) == 0;
}

std::optional<bool> LogStream::print_news() {
  bool news = false;
  for (std::size_t i = 0; i < logs_.size(); ++i) {
    Log& log = *logs_[i];
    merge_->is_silent(i, true);
    if (!log.failed && read(i)) news = news || log.left > 0 || merge_->has_line(i);
  }
  if (!give()) return std::nullopt;
  std::fflush(stdout);
  if (!any_works() || std::ferror(stdout) != 0) return std::nullopt;
  return news;
}

}  // namespace mobula::internal::cli
