#include "cli/output/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "cli/output/log_lines.h"

namespace mobula::internal::cli {
namespace {

constexpr Duration redraw_each = 100ms;
constexpr Duration short_wait = 2s;
constexpr std::size_t bar_columns = 24;
constexpr std::size_t narrow = 60;  // columns below which no bar is shown

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

bool can_draw() {
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || *term == '\0' || std::string_view(term) == "dumb";
  return ::isatty(STDERR_FILENO) == 1 && !dumb;
}

std::size_t columns_of_terminal() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Does not wait for a terminal that is blocked.
void write_to_terminal(std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = ::write(STDERR_FILENO, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
}

}  // namespace

std::string progress_line(const std::string& what, std::size_t columns) {
  std::string line = "mobula: " + printable(what);
  if (line.size() > columns) {
    std::size_t end = columns > 3 ? columns - 3 : 0;
    // Not within a character.
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0U) == 0x80U) --end;
    line = line.substr(0, end) + "...";
  }
  return line.substr(0, columns);
}

std::string progress_line(const std::string& what, std::uint64_t have, std::uint64_t all,
                          std::size_t columns) {
  const double fraction =
      all == 0 ? 1 : std::min(1.0, static_cast<double>(have) / static_cast<double>(all));
  const auto full = static_cast<std::size_t>(fraction * bar_columns);
  const std::string amounts =
      fmt::format("{:.1f} of {:.1f} MiB", static_cast<double>(have) / 0x1p20,
                  static_cast<double>(all) / 0x1p20);
  if (columns < narrow)
    return progress_line(fmt::format("{:.0f}% {}", fraction * 100, what), columns);
  return progress_line(fmt::format("{} [{}{}] {}", what, std::string(full, '#'),
                                   std::string(bar_columns - full, '.'), amounts),
                       columns);
}

Progress::Progress(bool wanted) : shown_(wanted && can_draw()), plain_(is_set("NO_COLOR")) {}

bool Progress::due() const {
  return shown_ && (drawn_at_ == Time() || monotonic_now() - drawn_at_ >= redraw_each);
}

void Progress::show(const std::string& what) {
  if (due()) draw(progress_line(what, columns_of_terminal() - 1));
}

void Progress::show_bytes(const std::string& what, std::uint64_t have, std::uint64_t all) {
  if (due()) draw(progress_line(what, have, all, columns_of_terminal() - 1));
}

void Progress::draw(const std::string& line) {
  drawn_at_ = monotonic_now();
  const std::string rest =
      plain_ ? std::string(drawn_ - std::min(drawn_, line.size()), ' ') : "\033[K";
  write_to_terminal("\r" + line + rest);
  drawn_ = line.size();
}

void Progress::clear() {
  if (drawn_ == 0) return;
  write_to_terminal(plain_ ? "\r" + std::string(drawn_, ' ') + "\r" : "\r\033[K");
  drawn_ = 0;
}

WaitProgress::WaitProgress(std::string what, bool wanted, bool elsewhere)
    : what_(std::move(what)),
      begun_(monotonic_now()),
      progress_(wanted),
      prints_once_(wanted && elsewhere && !progress_.shown()) {}

void WaitProgress::poll() {
  const Duration waited = monotonic_now() - begun_;
  if (waited < short_wait) return;
  const std::string text = fmt::format("waiting for {} ({} s)", what_, waited / 1s);
  progress_.show(text);
  if (!std::exchange(prints_once_, false)) return;
  std::fprintf(stderr, "%s\n", progress_line(text, text.size() + 80).c_str());
}

}  // namespace mobula::internal::cli
