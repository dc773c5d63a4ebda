// Decides whether instances of one node type may be launched: backs off by kind of failure, and
// pauses a type until an operator resumes it.
// Thread: owner (one FleetCore).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "deploy/fleet/core/failure_kind.h"
#include "deploy/fleet/core/fleet_options.h"

namespace mobula::internal::fleet {

class TypeGate {
 public:
  // Records one failed call; several failures of one call count once.
  void fail(Time now, const ProviderFailure& failure, const FleetOptions& options);
  // The provider accepted a whole call.
  void accept();
  // An instance did not join in time, or ended before it joined.
  void fail_start(const std::string& why, const FleetOptions& options);
  // The agent of an instance joined and died at once.
  void fail_life(const std::string& why, const FleetOptions& options);
  void join() { failed_starts_ = short_lives_ = 0; }
  // An instance is gone, which ends the wait for a quota.
  void release();
  void pause(const std::string& why);
  void resume();

  bool is_open(Time now) const { return !paused_ && now >= closed_until_; }
  bool paused() const { return paused_; }
  // Time at which a closed type opens by itself.
  std::optional<Time> opens_at(Time now) const;
  // Empty if the type is open.
  std::string reason(Time now) const;
  const std::map<FailureKind, std::int64_t>& failures() const { return failures_; }

 private:
  void pause_after_failures(const std::string& why, const FleetOptions& options);

  Time closed_until_;
  std::optional<FailureKind> kind_;
  std::string text_;
  bool paused_ = false;
  Duration capacity_backoff_{0};
  Duration transient_backoff_{0};
  // In a row, until an agent joins and lives.
  std::int64_t failed_starts_ = 0;
  std::int64_t short_lives_ = 0;
  std::map<FailureKind, std::int64_t> failures_;
};

}  // namespace mobula::internal::fleet
