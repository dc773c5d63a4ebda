// Verbs of tools: queries and commands, and the roles that may use each. A verb without a row is
// rejected.
// Thread: any (constants).
#pragma once

#include <array>
#include <string_view>

#include "protocol/tickets/roles.h"

namespace mobula::internal {

struct VerbRow {
  std::string_view verb;
  Roles roles;
  bool changes = false;
};

namespace roles {

// Agents are included, because the key that joins machines also serves the tools on them. A join
// token is unproven until it is redeemed.
inline constexpr Roles anybody{Role::unproven, Role::agent,    Role::driver_agent,
                               Role::driver,   Role::observer, Role::operator_};
inline constexpr Roles readers{Role::agent, Role::driver_agent, Role::driver, Role::observer,
                               Role::operator_};
inline constexpr Roles scrapers{Role::agent,    Role::driver_agent, Role::driver,
                                Role::observer, Role::metrics,      Role::operator_};
inline constexpr Roles submitters{Role::driver, Role::operator_};
inline constexpr Roles operators{Role::operator_};

inline constexpr std::array verbs{
    VerbRow{"ping", anybody},
    VerbRow{"status", readers},
    VerbRow{"list", readers},
    VerbRow{"list_part", readers},
    VerbRow{"get", readers},
    VerbRow{"explain", readers},
    VerbRow{"named_actors", readers},
    VerbRow{"planner_state", readers},
    VerbRow{"metrics", scrapers},
    VerbRow{"job_log", readers},
    VerbRow{"timeline", readers},
    VerbRow{"logs", readers},
    VerbRow{"log", readers},
    VerbRow{"head_log", readers},
    VerbRow{"usage", readers},
    VerbRow{"changes", readers},
    VerbRow{"history", readers},
    VerbRow{"fleet", readers},
    VerbRow{"fleet_report", operators},
    VerbRow{"package_get", Roles{Role::agent, Role::operator_}},  // nodes that run submitted jobs
    VerbRow{"submit", submitters, true},
    VerbRow{"job_stop", submitters, true},
    VerbRow{"package_put", submitters, true},
    VerbRow{"drain", operators, true},
    VerbRow{"undrain", operators, true},
    VerbRow{"actor_kill", operators, true},
    VerbRow{"stop", operators, true},
    VerbRow{"fleet_order", operators, true},
    VerbRow{"token_create", operators, true},
    VerbRow{"token_list", operators},
    VerbRow{"token_revoke", operators, true},
    VerbRow{"join", Roles{Role::unproven}, true},
};

}  // namespace roles

// Returns null for an unknown verb.
constexpr const VerbRow* verb_row(std::string_view verb) {
  for (const VerbRow& row : roles::verbs) {
    if (row.verb == verb) return &row;
  }
  return nullptr;
}

// A verb without a row is never allowed.
constexpr bool may_use(Role role, std::string_view verb) {
  const VerbRow* row = verb_row(verb);
  return row != nullptr && row->roles.contains(role);
}

}  // namespace mobula::internal
