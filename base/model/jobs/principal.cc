#include "base/model/jobs/principal.h"

#include <fmt/format.h>

namespace mobula::internal {

std::string_view to_string(Role role) {
  switch (role) {
    case Role::unproven: return "unproven";
    case Role::head: return "head";
    case Role::agent: return "agent";
    case Role::driver_agent: return "driver-agent";
    case Role::driver: return "driver";
    case Role::executor: return "executor";
    case Role::observer: return "observer";
    case Role::metrics: return "metrics";
    case Role::operator_: return "operator";
  }
  return "unknown";
}

std::string to_string(const EndCause& cause) {
  const auto because = cause.text.empty() ? std::string() : ": " + cause.text;
  switch (cause.kind) {
    case EndKind::exited:
      return fmt::format("exited with code {} (pid {}){}", cause.exit_code, cause.pid, because);
    case EndKind::signalled:
      if (cause.signal == 0)
        return fmt::format("disconnected (pid {}), exit status unknown{}", cause.pid, because);
      return fmt::format("was killed by signal {} (pid {}){}", cause.signal, cause.pid, because);
    case EndKind::out_of_memory:
      return fmt::format("was killed for memory (pid {}){}", cause.pid, because);
    case EndKind::retired: return fmt::format("retired as planned{}", because);
    case EndKind::intended: return fmt::format("left by exit_actor{}", because);
    case EndKind::killed: return fmt::format("was ended{}", because);
    case EndKind::node_died: return fmt::format("was on a node that died{}", because);
    case EndKind::group_removed:
      return fmt::format("was ended with its placement group{}", because);
    case EndKind::start_failed: return fmt::format("could not be started{}", because);
  }
  return "ended";
}

}  // namespace mobula::internal
