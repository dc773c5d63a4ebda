#include "deploy/fleet/core/failure_kind.h"

#include <array>
#include <utility>

namespace mobula::internal::fleet {
namespace {

constexpr auto kinds = std::to_array<std::pair<FailureKind, std::string_view>>({
    {FailureKind::capacity, "capacity"},
    {FailureKind::quota, "quota"},
    {FailureKind::invalid, "invalid"},
    {FailureKind::auth, "auth"},
    {FailureKind::transient, "transient"},
});

}  // namespace

std::string_view to_string(FailureKind kind) {
  for (const auto& [each, name] : kinds) {
    if (each == kind) return name;
  }
  return "transient";
}

std::optional<FailureKind> failure_kind_of(std::string_view name) {
  for (const auto& [each, known] : kinds) {
    if (known == name) return each;
  }
  return std::nullopt;
}

}  // namespace mobula::internal::fleet
