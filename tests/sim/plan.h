// What user code does in a history: functions as lists of steps, drawn before the history starts, and
// the oracle that says what each must return. Values are numbers; a function's result mixes its own
// number with everything it has read, so a value that is lost, swapped or stale shows. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace mobula::internal::sim {

enum class Act : std::uint8_t {
  submit,      // a task of `plan`; makes a var
  put,         // a value with `vars` inside; makes a var
  get,         // the value of `var`
  get_refs,    // the values of all refs inside the arguments
  call_refs,   // a call of `plan` on every handle inside the arguments, and its value
  keep_refs,   // the actor keeps the refs inside the arguments
  read_kept,   // the actor reads what it has kept
  wait_any,    // until one of `vars` is ready
  release,     // one ref on `var` fewer
  cancel,      // `var`, with `force`
  make_actor,  // of class `plan`; makes a var
  get_or_make, // the actor with the name in `plan`, created if no actor has the name; makes a var
  find_actor,  // by the name in `plan`, until it is there; makes a var
  call_actor,  // `plan` on the handle `var`; makes a var
  kill_actor,  // `var`
  make_group,  // a placement group of `bundles`; makes a var, which is there when the group is
  end_group,   // `var`
  sleep,       // for `span`
  leave,       // exit_actor
};

// An argument: the ref itself, or a value made on the spot with refs inside.
struct Given {
  bool by_ref = false;
  int var = -1;                 // by_ref
  std::uint64_t number = 0;     // a value
  std::vector<int> contained;   // vars inside the value
  bool pass_refs = false;       // and all refs that were inside the caller's arguments
};

struct Step {
  Act act = Act::sleep;
  int plan = -1;
  int var = -1;
  std::vector<Given> given{};
  std::vector<int> vars{};
  std::uint64_t number = 0;
  bool large = false;
  bool force = false;
  bool tolerant = false;  // get: an error is no news, and the value is not mixed in
  Duration span{};
  int group = -1;               // submit: the var of the group to run in
  std::vector<int> bundles{};   // make_group: CPUs of each; a negative count adds a GPU
  int strategy = 0;             // make_group: a GroupStrategy
  bool must_fail = false;       // call_actor: its actor was killed before
  bool unawaited = false;       // call_refs: makes two vars for each handle, itself and a value that is not read
};

// A function, method, class or item of a driver.
struct Plan {
  int id = 0;
  std::string name;
  std::string shape = "cpu";    // what it asks for, see `request_of`
  std::int32_t max_calls = 0;
  std::vector<Step> steps{};
  Duration run_time{};
  bool large = false;           // the result goes to the store
  std::vector<int> returned{};  // vars inside the result
  bool return_refs = false;     // and the refs inside the arguments
  int tensors = 0;              // and tensors whose elements stay where it ran
  std::int32_t max_retries = -1;
  std::uint32_t crashes = 0;    // attempts that end their executor
  std::uint32_t throws = 0;     // attempts that throw; all do unless exceptions are retried
  bool parts = false;           // its executor dies a moment after it has answered
  bool parts_once = false;      // the same of its first attempt alone
  bool hangs = false;           // its executor ends by being killed only
  bool retry_exceptions = false;
  bool may_fail = false;        // an error is no fault of the runtime
  std::int64_t memory_mib = 0;  // which it has taken, bit by bit, when it ends
  // Classes.
  std::string actor_name{};
  bool detached = false;
  bool get_if_exists = false;
  std::int32_t max_restarts = 0;
  std::int32_t max_task_retries = 0;
  std::int32_t max_concurrency = 1;
};

// Whether the function throws in this attempt. Where exceptions are not retried the next attempt is
// none of the plan's: another's crash has ended the one before.
inline bool throws_in(const Plan& plan, std::uint32_t attempt) {
  return plan.throws > 0 && (!plan.retry_exceptions || attempt < plan.throws);
}

// What must come out.
struct Expected {
  std::uint64_t number = 0;
  bool must_fail = false;
  bool may_fail = false;
  bool handle = false;
  std::vector<Expected> contained{};
};

std::uint64_t mixed(std::uint64_t a, std::uint64_t b);

using Plans = std::vector<Plan>;
// The result of plan `id` called with these.
Expected evaluate(const Plans& plans, int id, const std::vector<Expected>& arguments);
// The argument that `given` makes of these vars.
Expected evaluate_given(const Given& given, const std::vector<Expected>& vars,
                        const std::vector<Expected>& refs);

}  // namespace mobula::internal::sim
