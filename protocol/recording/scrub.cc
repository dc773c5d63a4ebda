#include "protocol/recording/scrub.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "base/id.h"

namespace mobula::internal {
namespace {

constexpr std::string_view hidden = "hidden:";

bool is_one_of(std::string_view name, std::span<const std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

bool Scrubber::is_secret(std::string_view name) {
  static constexpr std::string_view names[] = {"key", "token", "ticket", "agent_ticket",
                                               "curve_secret_key"};
  return is_one_of(name, names);
}

bool Scrubber::is_environment(std::string_view name) {
  static constexpr std::string_view names[] = {"env", "job_env", "accelerator_env", "start_env"};
  return is_one_of(name, names);
}

bool Scrubber::is_user_text(std::string_view name) {
  static constexpr std::string_view names[] = {"arguments", "lines"};
  return is_one_of(name, names);
}

void Scrubber::hide(std::string& text) const {
  if (text.empty() || text.starts_with(hidden)) return;
  text = std::string(hidden) + hex_of(siphash128(key_, std::as_bytes(std::span(text))));
}

void Scrubber::scrub(Payload& value) const {
  if (!value.empty()) value = Payload(std::vector<std::byte>(1));
}

}  // namespace mobula::internal
