// A user's program that serves a console (`use PROGRAM` of `mobula repl`) in place of the rest of its main:
// it tells the functions and classes that it names, and calls them with JSON. One socket, a JSON object a line
// each way; a request is answered before the next one is read, and none blocks for longer than a moment.
//
//   {"do": "describe"}                                          -> functions, actors
//   {"do": "call", "as": "x", "function": "f", "arguments": […], "options": {…}}
//   {"do": "create", "as": "c", "class": "Counter", "arguments": […], "options": {…}}
//   {"do": "method", "as": "x", "actor": "c", "method": "add", "arguments": […], "options": {…}}
//   {"do": "get", "name": "x"}                                  -> value, or pending and which object, job and node
//   {"do": "kill", "name": "c"}
//
// An argument is {"json": VALUE} or {"name": "x"}, the result of an earlier call. Answers are {"ok": true, …} or
// {"ok": false, "kind": "TaskError", "exit": 1, "error": "…"}. The thread of init alone.
#pragma once

#include <memory>
#include <optional>

#include "base/fd.h"
#include "mobula/cluster.h"

namespace mobula::internal::runtime::console {

// The socket of the console that has started this process; taken out of the environment, so that no other
// process takes it for its own. Nothing: no console has.
std::optional<Fd> take_console();

// Until the console closes its end; then the job ends, and the process.
[[noreturn]] void serve_console(Fd socket, std::unique_ptr<detail::ClusterSession> session);

}  // namespace mobula::internal::runtime::console
