#include "deploy/fleet/core/instance.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace mobula::internal::fleet {
namespace {

constexpr auto provider_states =
    std::to_array<std::string_view>({"pending", "starting", "running", "ending", "gone", "failed"});
constexpr std::array<std::string_view, instance_states> states{"requested", "accepted", "starting",
                                                               "joined",    "draining", "ending"};

}  // namespace

std::string_view to_string(ProviderState state) {
  return provider_states.at(static_cast<std::size_t>(state));
}

std::optional<ProviderState> provider_state_of(std::string_view name) {
  for (std::size_t i = 0; i < provider_states.size(); ++i) {
    if (provider_states.at(i) == name) return static_cast<ProviderState>(i);
  }
  return std::nullopt;
}

std::string_view to_string(InstanceState state) {
  return states.at(static_cast<std::size_t>(state));
}

std::string instance_name(const std::string& cluster, std::uint64_t number) {
  return fmt::format("mobula-{}-{}", cluster, number);
}

std::optional<std::uint64_t> instance_number(const std::string& cluster, std::string_view name) {
  const std::string prefix = "mobula-" + cluster + "-";
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  std::uint64_t number = 0;
  const char* end = name.data() + name.size();
  const auto read = std::from_chars(name.data(), end, number);
  const bool whole = read.ec == std::errc() && read.ptr == end;
  return whole ? std::optional(number) : std::nullopt;
}

}  // namespace mobula::internal::fleet
