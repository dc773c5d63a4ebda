// Kinds of failures of a provider, and a failure with its text. The kind selects the reaction of
// the fleet core: back off, wait, or pause.
// Thread: any (plain values).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace mobula::internal::fleet {

enum class FailureKind : std::uint8_t {
  capacity,   // the provider has no such machine at present
  quota,      // a limit of the account
  invalid,    // the provider rejects the request itself
  auth,       // the provider rejects the credentials
  transient,  // any other failure; a repeated call may succeed
};
std::string_view to_string(FailureKind kind);
// Returns nothing for an unknown name.
std::optional<FailureKind> failure_kind_of(std::string_view name);

struct ProviderFailure {
  FailureKind kind = FailureKind::transient;
  std::string text;
  std::optional<Duration> retry_after{};  // earliest repetition, if the provider names one
  friend bool operator==(const ProviderFailure&, const ProviderFailure&) = default;
};

}  // namespace mobula::internal::fleet
