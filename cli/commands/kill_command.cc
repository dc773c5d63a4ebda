#include "cli/commands/kill_command.h"

#include <fmt/format.h>

#include "cli/exit_code.h"
#include "cli/head_query.h"
#include "cli/output/output.h"

namespace mobula::internal::cli {

int kill_actor(const CommandLine& line) {
  HeadQuery query(line);
  const auto done = query.request("actor_kill", line.restart ? "restart" : "", line.subject);
  if (!done) return complain(done.error());
  if (!for_people(line)) return print(*done, line);
  const std::string name = done->value("name", "");
  return print(fmt::format("Actor {} ({}{}) is killed{}.\n", done->value("actor_id", ""),
                           done->value("class_name", ""), name.empty() ? "" : " '" + name + "'",
                           line.restart ? ", and starts again if restarts are left" : ""));
}

}  // namespace mobula::internal::cli
