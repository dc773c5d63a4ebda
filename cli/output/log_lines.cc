#include "cli/output/log_lines.h"

#include <fmt/format.h>
#include <regex.h>

#include <algorithm>
#include <utility>

namespace mobula::internal::cli {
namespace {

constexpr std::size_t longest_escape = 4096;

bool is_control(unsigned char c) { return (c < 0x20 && c != '\t') || c == 0x7f; }

// Returns the length of an escape sequence at the beginning, or 0 (ECMA-48: CSI, and OSC up to its
// end).
std::size_t escape_length(std::string_view text) {
  if (text.size() < 2 || text[0] != '\x1b') return 0;
  text = text.substr(0, longest_escape);
  if (text[1] == '[') {
    std::size_t at = 2;
    while (at < text.size() && text[at] >= 0x20 && text[at] <= 0x3f) ++at;
    return at < text.size() && text[at] >= 0x40 && text[at] <= 0x7e ? at + 1 : 0;
  }
  if (text[1] == ']') {
    for (std::size_t at = 2; at < text.size(); ++at) {
      if (text[at] == '\x07') return at + 1;
      if (text[at] == '\x1b' && at + 1 < text.size() && text[at + 1] == '\\') return at + 2;
    }
  }
  return 0;
}

}  // namespace

int bytes_after(unsigned char c) {
  if (c >= 0xc2 && c <= 0xdf) return 1;
  if (c >= 0xe0 && c <= 0xef) return 2;
  return c >= 0xf0 && c <= 0xf4 ? 3 : 0;
}

std::string printable(std::string_view line) {
  std::string text;
  text.reserve(line.size());
  int follow = 0;  // continuation bytes that are still missing
  for (std::size_t at = 0; at < line.size();) {
    const auto c = static_cast<unsigned char>(line[at]);
    if (const std::size_t length = escape_length(line.substr(at)); length > 0) {
      at += length;
      continue;
    }
    const auto next = at + 1 < line.size() ? static_cast<unsigned char>(line[at + 1]) : 0u;
    if (c == 0xc2 && next >= 0x80 && next <= 0x9f) {  // C1 controls in UTF-8
      text += fmt::format("\\x{:02x}", next);
      at += 2;
      continue;
    }
    // Stray C1 bytes are not UTF-8, and some terminals obey them.
    const bool continues = follow > 0 && c >= 0x80 && c <= 0xbf;
    follow = continues ? follow - 1 : bytes_after(c);
    if (is_control(c) || (c >= 0x80 && c <= 0x9f && !continues)) {
      text += fmt::format("\\x{:02x}", c);
    } else {
      text += line[at];
    }
    ++at;
  }
  return text;
}

struct LogLines::Pattern {
  regex_t compiled{};
  bool ready = false;
  Pattern() = default;
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  ~Pattern() {
    if (ready) ::regfree(&compiled);
  }
};

Result<LogLines> LogLines::create(Options options, std::function<bool(const std::string&)> sink) {
  LogLines lines(std::move(options), std::move(sink));
  if (lines.options_.pattern.empty()) return lines;
  lines.pattern_ = std::make_shared<Pattern>();
  const int fault = ::regcomp(&lines.pattern_->compiled, lines.options_.pattern.c_str(),
                              REG_EXTENDED | REG_NOSUB);
  if (fault != 0) {
    char why[128] = "";
    ::regerror(fault, &lines.pattern_->compiled, why, sizeof why);
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("--grep: '{}' is not a regular expression: {}", lines.options_.pattern, why));
  }
  lines.pattern_->ready = true;
  return lines;
}

bool LogLines::take(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t space = max_line - partial_.size();
    const bool whole = end != std::string_view::npos && end <= space;
    const std::size_t size = whole ? end : std::min(bytes.size(), space);
    partial_.append(bytes.substr(0, size));
    bytes.remove_prefix(whole ? size + 1 : size);
    if (!whole && partial_.size() < max_line) return true;
    if (!give(std::exchange(partial_, {}))) return false;
  }
  return true;
}

bool LogLines::give(std::string_view line) {
  std::string text = options_.raw ? std::string(line) : printable(line);
  if (pattern_ && ::regexec(&pattern_->compiled, text.c_str(), 0, nullptr, 0) != 0) return true;
  text += '\n';
  if (settled_ || options_.tail < 0) return sink_(text);
  tail_bytes_ += text.size();
  tail_.push_back(std::move(text));
  while (tail_.size() > static_cast<std::size_t>(options_.tail) || tail_bytes_ > max_tail_bytes) {
    tail_bytes_ -= tail_.front().size();
    tail_.pop_front();
  }
  return true;
}

bool LogLines::settle(bool follows) {
  if (!follows && !partial_.empty() && !give(std::exchange(partial_, {}))) return false;
  settled_ = true;
  tail_bytes_ = 0;
  for (const auto& line : std::exchange(tail_, {})) {
    if (!sink_(line)) return false;
  }
  return true;
}

}  // namespace mobula::internal::cli
