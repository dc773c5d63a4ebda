#include "cli/output/color.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

namespace mobula::internal::cli {
namespace {

constexpr std::string_view end_of_colors = "\x1b[0m";
constexpr const char* who_speaks = "mobula:";

ColorChoice message_colors = ColorChoice::automatic;

std::string label(Paint paint) {
  return wants_colors(message_colors, STDERR_FILENO) ? painted(who_speaks, paint) : who_speaks;
}

}  // namespace

std::optional<ColorChoice> color_choice_of(std::string_view text) {
  if (text == "auto") return ColorChoice::automatic;
  if (text == "always") return ColorChoice::always;
  if (text == "never") return ColorChoice::never;
  return std::nullopt;
}

bool wants_colors(ColorChoice choice, const ColorContext& context) {
  if (choice != ColorChoice::automatic) return choice == ColorChoice::always;
  const bool refused = context.no_color != nullptr && *context.no_color != '\0';
  const bool dumb = context.term != nullptr && std::string_view(context.term) == "dumb";
  return context.terminal && !refused && !dumb;
}

bool wants_colors(ColorChoice choice, int fd) {
  return wants_colors(choice, {::isatty(fd) == 1, std::getenv("NO_COLOR"), std::getenv("TERM")});
}

std::string painted(std::string_view text, Paint paint) {
  constexpr std::array<std::string_view, 4> begin{"\x1b[1m", "\x1b[32m", "\x1b[33m", "\x1b[31m"};
  return std::string(begin[static_cast<std::size_t>(paint)]).append(text).append(end_of_colors);
}

std::optional<Paint> paint_of(std::string_view state) {
  std::string word(state);
  for (auto& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto is = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, word) != words.end();
  };
  if (is({"RUNNING", "ALIVE", "CREATED", "OK", "UP"}) || word.starts_with("RUNNING_"))
    return Paint::good;
  if (is({"FAILED", "DEAD", "LOST", "ERROR", "INFEASIBLE", "UNREACHABLE", "REFUSED", "BROKEN",
          "WRONG"}))
    return Paint::bad;
  if (is({"DRAINING", "SUSPECT", "RESTARTING", "RESCHEDULING", "RECOVERING", "STARTING", "EXPECTED",
          "WARNING", "SKIPPED"}) ||
      word.starts_with("PENDING")) {
    return Paint::waiting;
  }
  return std::nullopt;
}

std::string painted_state(std::string_view state, bool colored) {
  const auto paint = colored ? paint_of(state) : std::nullopt;
  return paint ? painted(state, *paint) : std::string(state);
}

std::size_t color_at(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const auto end = text.find_first_not_of("0123456789;", 2);
  return end == std::string_view::npos || text[end] != 'm' ? 0 : end + 1;
}

std::string cut_to_width(std::string_view line, std::size_t columns) {
  std::size_t seen = 0;
  bool colored = false;
  for (std::size_t at = 0; at < line.size();) {
    if (const auto size = color_at(line.substr(at)); size > 0) {
      colored = line.substr(at, size) != end_of_colors;
      at += size;
      continue;
    }
    // First byte of a UTF-8 character.
    const bool begins = (static_cast<unsigned char>(line[at]) & 0xc0) != 0x80;
    if (begins && seen++ == columns)
      return std::string(line.substr(0, at)).append(colored ? end_of_colors : "");
    ++at;
  }
  return std::string(line);
}

void choose_message_colors(ColorChoice choice) { message_colors = choice; }
std::string error_label() { return label(Paint::bad); }
std::string warning_label() { return label(Paint::waiting); }

}  // namespace mobula::internal::cli
