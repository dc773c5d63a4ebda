#include "cli/output/terminal_guard.h"

#include <fmt/format.h>

#include <utility>

#include "cli/output/log_lines.h"

namespace mobula::internal::cli {
namespace {

enum class Sequence : unsigned char { none, cut, harmless };

bool is_parameter(char c) { return (c >= '0' && c <= '9') || c == ';' || c == ':'; }

// Returns the kind and length of a sequence at the beginning, which starts with ESC (ECMA-48: SGR
// and EL).
std::pair<Sequence, std::size_t> sequence_at(std::string_view text) {
  if (text.size() < 2) return {Sequence::cut, text.size()};
  if (text[1] != '[') return {Sequence::none, 1};
  std::size_t at = 2;
  while (at < text.size() && at < TerminalGuard::longest_sequence && is_parameter(text[at])) ++at;
  if (at == TerminalGuard::longest_sequence) return {Sequence::none, 1};
  if (at == text.size()) return {Sequence::cut, at};
  const bool harmless = text[at] == 'm' || text[at] == 'K';
  return {harmless ? Sequence::harmless : Sequence::none, harmless ? at + 1 : 1};
}

bool passes(unsigned char c) {
  return c == '\n' || c == '\t' || c == '\r' || c == '\b' || (c >= 0x20 && c != 0x7f);
}

}  // namespace

std::string TerminalGuard::pass(std::string_view bytes) {
  const std::string all = std::exchange(held_, {}) + std::string(bytes);
  const std::string_view text = all;
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c == 0x1b) {
      const auto [kind, size] = sequence_at(text.substr(at));
      if (kind == Sequence::cut) {
        held_ = text.substr(at);
        break;
      }
      if (kind == Sequence::harmless) {
        colored_ = colored_ || text[at + size - 1] == 'm';
        shown += text.substr(at, size);
      } else {
        shown += "\\x1b";
      }
      follow_ = 0;
      at += size;
      continue;
    }
    if (c == 0xc2 && at + 1 == text.size()) {  // possible first byte of a C1 control in UTF-8
      held_ = text.substr(at);
      break;
    }
    const auto next = at + 1 < text.size() ? static_cast<unsigned char>(text[at + 1]) : 0u;
    if (c == 0xc2 && next >= 0x80 && next <= 0x9f) {
      shown += fmt::format("\\x{:02x}", next);
      at += 2;
      continue;
    }
    const bool continues = follow_ > 0 && c >= 0x80 && c <= 0xbf;
    follow_ = continues ? follow_ - 1 : bytes_after(c);
    if (passes(c) && (c < 0x80 || c > 0x9f || continues)) {
      shown += text[at];
    } else {
      shown += fmt::format("\\x{:02x}", c);
    }
    ++at;
  }
  return shown;
}

std::string TerminalGuard::end() {
  std::string shown;
  for (const char c : std::exchange(held_, {}))
    shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  if (std::exchange(colored_, false)) shown += "\x1b[0m";
  return shown;
}

}  // namespace mobula::internal::cli
