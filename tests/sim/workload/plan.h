// User code of a history: functions as lists of steps, drawn before the history starts, and the
// oracle that computes their results. Values are numbers. A result mixes the function's number with
// all values read, which exposes a lost, swapped, or stale value.
// Thread: any. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/model/task.h"
#include "base/time.h"

namespace mobula::internal::sim {

enum class Act : std::uint8_t {
  submit,       // a task of `plan`; makes a var
  put,          // a value with `vars` inside; makes a var
  get,          // the value of `var`
  get_refs,     // the values of all refs inside the arguments
  call_refs,    // the value of a call of `plan` on every handle inside the arguments
  keep_refs,    // the actor keeps the refs inside the arguments
  read_kept,    // the actor reads the refs that it keeps
  wait_any,     // until one of `vars` is ready
  release,      // one ref of `var`
  cancel,       // `var`, with `force`
  make_actor,   // actor of class `plan`; makes a var
  get_or_make,  // the actor with the name in `plan`, created if it does not exist; makes a var
  find_actor,   // waits for the actor with the name in `plan`; makes a var
  call_actor,   // `plan` on the handle `var`; makes a var
  kill_actor,   // `var`
  make_group,  // a placement group of `bundles`; makes a var that is ready when the group is placed
  end_group,   // `var`
  sleep,       // for `span`
  leave,       // exit_actor
  read_stream,  // the stream `var`, or the first one inside the arguments, up to `number` items
};

// An argument: the ref itself, or a new value with refs inside.
struct Given {
  bool by_ref = false;
  int var = -1;                // if by_ref
  std::uint64_t number = 0;    // otherwise
  std::vector<int> contained;  // vars inside the value
  bool pass_refs = false;      // adds all refs inside the caller's arguments
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
  bool tolerant = false;  // get: an error is allowed, and the value is not mixed into the result
  Duration span{};
  int group = -1;              // submit, make_actor: var of the group to run in
  std::vector<int> bundles{};  // make_group: CPUs per bundle; a negative count adds a GPU
  int strategy = 0;            // make_group: a GroupStrategy
  bool must_fail = false;      // call_actor: the actor was killed before
  // Call_refs: makes two vars per handle, the handle and an unread value.
  bool unawaited = false;
};

// A function, method, class, or item of a driver.
struct Plan {
  int id = 0;
  std::string name;
  std::string shape = "cpu";  // name of its request, see `request_of`
  std::int32_t max_calls = 0;
  std::vector<Step> steps{};
  Duration run_time{};
  bool large = false;           // the result is stored in the object store
  std::vector<int> returned{};  // vars inside the result
  bool return_refs = false;     // adds the refs inside the arguments
  int tensors = 0;              // adds tensors whose elements stay in the executor
  std::int32_t max_retries = -1;
  std::uint32_t crashes = 0;  // attempts that crash their executor
  std::uint32_t throws = 0;   // attempts that throw; all attempts unless exceptions are retried
  bool parts = false;         // the executor dies shortly after its reply
  bool parts_once = false;    // the same, for the first attempt only
  bool hangs = false;         // the executor must be killed to exit
  bool retry_exceptions = false;
  Duration answered_after{};        // deferred call: from the return of user code; 0: not deferred
  bool may_fail = false;            // an error is not a fault of the runtime
  std::int64_t memory_mib = 0;      // memory taken by the end of the call, in steps
  std::uint32_t stream_window = 0;  // not 0: a streaming call
  std::uint64_t items = 0;          // its items; crashes and throws happen halfway
  Duration item_time{};             // time between them
  // Fields of classes.
  std::string actor_name{};
  bool detached = false;
  bool get_if_exists = false;
  std::int32_t max_restarts = 0;
  std::int32_t max_task_retries = 0;
  std::int32_t max_concurrency = 1;
  std::vector<ConcurrencyGroup> groups{};
  bool out_of_order = false;
  // Fields of methods.
  std::string group{};    // concurrency group of its calls
  bool abandons = false;  // deferred call: its promise is destroyed without an answer
};

// True if the function throws in this attempt. If exceptions are not retried, every attempt throws:
// a further attempt follows only a crash caused by another task.
inline bool throws_in(const Plan& plan, std::uint32_t attempt) {
  return plan.throws > 0 && (!plan.retry_exceptions || attempt < plan.throws);
}

// The expected outcome of a call.
struct Expected {
  std::uint64_t number = 0;
  bool must_fail = false;
  bool may_fail = false;
  bool handle = false;
  std::vector<Expected> contained{};
};

std::uint64_t mixed(std::uint64_t a, std::uint64_t b);
// The value of an item of a streaming call.
inline std::uint64_t item_number(const Plan& plan, std::uint64_t index) {
  return mixed(static_cast<std::uint64_t>(plan.id) + 1, index);
}

using Plans = std::vector<Plan>;
// Returns the result of plan `id` with these arguments.
Expected evaluate(const Plans& plans, int id, const std::vector<Expected>& arguments);
// Returns the argument that `given` makes of these vars.
Expected evaluate_given(const Given& given, const std::vector<Expected>& vars,
                        const std::vector<Expected>& refs);

}  // namespace mobula::internal::sim
