// Serves a console (`use PROGRAM` of `mobula repl`) in the user's program in place of the rest of
// main: describes its functions and classes, and calls them with JSON. One socket carries one JSON
// object per line in each direction. A request is answered before the next one is read, and none
// blocks for long.
// Thread: the thread of init.
#pragma once

#include <memory>
#include <optional>

#include "base/fd.h"
#include "mobula/cluster.h"

namespace mobula::internal::runtime::console {

// The socket of the console that started this process, removed from the environment so that child
// processes do not use it. Empty without a console.
std::optional<Fd> take_console();

// Serves until the console closes its end, then ends the job and the process. Requests:
//
//   {"do": "describe"}                                     -> functions, actors
//   {"do": "call", "as": "x", "function": "f", "arguments": […], "options": {…}}
//   {"do": "create", "as": "c", "class": "Counter", "arguments": […], "options": {…}}
//   {"do": "method", "as": "x", "actor": "c", "method": "add", "arguments": […], "options": {…}}
//   {"do": "get", "name": "x"}          -> value, or pending with its object, job, and node
//   {"do": "kill", "name": "c"}
//
// An argument is {"json": VALUE} or {"name": "x"}, the result of an earlier call. Replies are
// {"ok": true, …} or {"ok": false, "kind": "TaskError", "exit": 1, "error": "…"}.
[[noreturn]] void serve_console(Fd socket, std::unique_ptr<detail::ClusterSession> session);

}  // namespace mobula::internal::runtime::console
