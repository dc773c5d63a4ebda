#include "base/model/trace_parent.h"

#include <algorithm>

namespace mobula::internal {
namespace {

constexpr std::size_t text_size = 55;         // of version 00
constexpr std::size_t max_state_bytes = 512;  // that the specification lets every program pass on

// Lower-case digits, of which one is not 0.
bool is_id(std::string_view text) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return std::ranges::all_of(text, is_digit) &&
         std::ranges::any_of(text, [](char c) { return c != '0'; });
}

bool is_byte(std::string_view text) { return text == "00" || is_id(text); }

}  // namespace

std::optional<TraceParent> trace_parent_of(std::string_view text) {
  if (text.size() < text_size || text[2] != '-' || text[35] != '-' || text[52] != '-')
    return std::nullopt;
  const auto version = text.substr(0, 2);
  if (!is_byte(version) || version == "ff" || !is_byte(text.substr(53, 2))) return std::nullopt;
  // Later versions may have more fields.
  const bool has_more = text.size() > text_size;
  if (has_more && (version == "00" || text[text_size] != '-')) return std::nullopt;
  TraceParent parent{std::string(text.substr(3, 32)), std::string(text.substr(36, 16))};
  if (!is_id(parent.trace_id) || !is_id(parent.span_id)) return std::nullopt;
  return parent;
}

void add_trace_context(std::map<std::string, std::string>& environment, const char* parent,
                       const char* state) {
  if (parent == nullptr || !trace_parent_of(parent)) return;
  if (!environment.emplace(trace_parent_variable, parent).second || state == nullptr) return;
  const std::string_view value(state);
  if (!value.empty() && value.size() <= max_state_bytes)
    environment.emplace(trace_state_variable, value);
}

}  // namespace mobula::internal
