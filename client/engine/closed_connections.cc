#include "client/engine/closed_connections.h"

#include <utility>

#include "base/logging/stderr_queue.h"

namespace mobula::internal::client {
namespace {

constexpr Duration report_interval = 60s;

}  // namespace

void ClosedConnections::report(const std::string& source, const std::string& why, Time now) {
  ++unreported_;
  if (reported_at_ && now - *reported_at_ < report_interval) return;
  reported_at_ = now;
  print_stderr("mobula: closed a connection from {}: {}; {} since the last report", source, why,
               std::exchange(unreported_, 0));
}

}  // namespace mobula::internal::client
