// Options of `init`, tasks, actors, calls, `get`, `put`, and `wait`: aggregates for designated
// initializers.
// Thread: owner (plain values).
// Units: bytes, seconds, and amounts of resources.
// Errors: `InvalidRequestError` from the call that uses the options; it names the field and the
// rule.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include <mobula/amount.h>
#include <mobula/device.h>
#include <mobula/placement_group.h>
#include <mobula/retry_exceptions.h>

namespace mobula {

// Environment variables by name.
using Environment = std::map<std::string, std::string>;

// The path of tensors. A named transport fails unless it is available, or `allow_fallback` is set.
enum class Transport : std::uint8_t {
  automatic,     // best available path
  shm,           // shared memory of one machine
  tcp,           // TCP connections
  gloo,          // plugin with the Gloo library
  ucx,           // plugin with the UCX library
  cuda_ipc,      // CUDA memory shared between processes of one machine
  nccl,          // NCCL communicator
  object_store,  // copy through the object store
  nixl           // NIXL; one-sided, between two processes, not for groups
};

// The producer's right to write to tensors that stay in its process while others refer to the
// value.
enum class TensorPolicy : std::uint8_t {
  freeze,    // read only: `mutable_view` throws `TensorSharedError`
  snapshot,  // unrestricted: the value is a copy made when it was returned or put
  alias      // unrestricted without a copy: readers may see a change in progress; logs a warning
};

// The default strategy.
struct Default {
  // Compares types; all values are equal.
  friend bool operator==(const Default&, const Default&) = default;
};
// Spreads tasks and actors over the nodes of the cluster.
struct Spread {
  // Compares types; all values are equal.
  friend bool operator==(const Spread&, const Spread&) = default;
};
// Places the task on one node.
struct NodeAffinity {
  std::string node_id = {};  // id of the node
  bool soft = false;         // whether another node may be used if this one is dead or infeasible
  // Compares id and softness.
  friend bool operator==(const NodeAffinity&, const NodeAffinity&) = default;
};
// A scheduling strategy. Label selectors are a separate option.
using Scheduling = std::variant<Default, Spread, NodeAffinity>;

// A position in a placement group. `Placement{}` without a group opts out of the parent's group.
struct Placement {
  PlacementGroup group = {};         // the group
  int bundle_index = -1;             // index of the bundle; -1: any bundle
  bool capture_child_tasks = false;  // whether child tasks use the group
  // Compares all members.
  friend bool operator==(const Placement&, const Placement&) = default;
};

// Options of `init`. Each field has a flag `--mobula-FIELD`, which overrides it. The fields from
// `num_cpus` to `accelerator_type` describe a local cluster and exclude an address.
struct InitOptions {
  std::string address = {};                     // HOST:PORT of the head, a token, or "local"
  std::optional<Amount> num_cpus = {};          // default: the CPUs of this machine
  std::optional<Amount> num_gpus = {};          // default: the GPUs of this machine
  std::optional<std::int64_t> gpu_memory = {};  // bytes per device
  std::optional<std::int64_t> memory = {};      // bytes; default: the memory of this machine
  std::optional<std::int64_t> object_store_memory = {};  // bytes
  Resources resources = {};                              // custom resources
  std::string accelerator_type = {};                     // default: as detected
  Labels labels = {};                                    // labels of the node
  std::string job_name = {};                             // name of the job
  std::string name_space = {};  // namespace of named actors and placement groups
  Environment env = {};         // variables for every executor of the job
  std::string log_level = {};   // trace, debug, info, warn, error, critical, or off
  std::int64_t max_pending_bytes = std::int64_t{1} << 30;  // bytes of pending arguments
  int job_priority = 0;      // -1000 to 1000; order among jobs, the higher one first
  int job_weight = 1;        // 1 to 10000; fair-share weight among jobs of equal priority
  Resources job_quota = {};  // most that the job holds at one time, by resource
};

// A number whose default depends on other choices. Converts from and to int.
class DefaultedInt {
 public:
  // Creates the default, which is 1 unless a rule states another number.
  constexpr DefaultedInt() = default;
  // Creates a number that was chosen.
  constexpr DefaultedInt(int value) : value_(value), chosen_(true) {}  // NOLINT: implicit
  // Returns the number.
  constexpr operator int() const { return value_; }  // NOLINT: implicit
  // Reports whether a number was chosen.
  constexpr bool is_chosen() const { return chosen_; }

 private:
  int value_ = 1;
  bool chosen_ = false;
};

// Options of a task.
struct TaskOptions {
  std::string name = {};              // name in lists and logs; default: the function's name
  Amount num_cpus = 1;                // CPUs while the task runs
  Amount num_gpus = 0;                // GPUs; below 1 or whole
  std::int64_t gpu_memory = 0;        // bytes per device
  std::int64_t memory = 0;            // bytes
  Resources resources = {};           // custom resources
  std::string accelerator_type = {};  // required accelerator type
  // Conditions by label: "v", "!v", "in(a,b)", or "!in(a,b)". All must hold. A node without the
  // label meets the negated forms.
  Labels label_selector = {};
  Scheduling scheduling = Default{};        // scheduling strategy
  std::optional<Placement> placement = {};  // bundle of a placement group
  int num_returns = 1;                      // 1, or with `split` the number of elements
  int max_calls = -1;   // tasks per executor; -1: 1 with accelerators, otherwise 0; 0: unlimited
  int max_retries = 3;  // retries after a crash; -1: unlimited
  // Exceptions of user code that are retried too: all, none, or those of
  // `retry_on<E...>()`.
  RetryExceptions retry_exceptions = false;
  Transport tensor_transport = Transport::object_store;  // path of tensors in the result
  Environment env = {};                                  // variables of the executor
  bool allow_fallback = false;      // whether another path may replace `tensor_transport`
  bool block_on_limit = true;       // true: `remote` blocks at a limit; false: it throws
  bool fail_if_infeasible = false;  // `UnschedulableError` instead of waiting for a node
  int priority = 0;                 // -1000 to 1000; order within the job, the higher one first
  // Up to 16 alternatives to `label_selector`, in order of preference. The first selector for which
  // a node has capacity now is used; if no node has capacity, the request waits for any of them.
  std::vector<Labels> fallback_selectors = {};
  TensorPolicy tensor_policy = TensorPolicy::freeze;  // for tensors that stay in the producer
  int stream_window = 64;  // `generator<T>`: items by which the call may precede its consumers
  // Compares all members.
  friend bool operator==(const TaskOptions&, const TaskOptions&) = default;
};

// Options of an actor.
struct ActorOptions {
  std::string name = {};                  // name for `get_actor`; empty: none
  std::string name_space = {};            // namespace of the name; empty: namespace of the job
  Lifetime lifetime = Lifetime::counted;  // whether the actor ends with its last handle
  bool get_if_exists = false;             // returns the live actor of this name, if there is one
  // Absent and no resource except `memory` requested: 1 for placement, 0 while the actor runs.
  // Absent and another resource requested: 1 for the actor's lifetime.
  std::optional<Amount> num_cpus = {};
  Amount num_gpus = 0;                      // GPUs; below 1 or whole
  std::int64_t gpu_memory = 0;              // bytes per device
  std::int64_t memory = 0;                  // bytes
  Resources resources = {};                 // custom resources
  std::string accelerator_type = {};        // required accelerator type
  Labels label_selector = {};               // conditions as in `TaskOptions`
  Scheduling scheduling = Default{};        // scheduling strategy
  std::optional<Placement> placement = {};  // bundle of a placement group
  int max_restarts = 0;                     // restarts after a crash; -1: unlimited
  int max_task_retries = 0;                 // retries of a call after a crash; -1: unlimited
  DefaultedInt max_concurrency = {};  // calls that run at the same time; asynchronous actors: 1000
  int max_pending_calls = -1;         // unfinished calls per calling process; -1: unlimited
  bool exclusive = false;             // never two incarnations at the same time
  Environment env = {};               // variables of the executor
  bool block_on_limit = true;         // true: `remote` blocks at a limit; false: it throws
  bool fail_if_infeasible = false;    // `UnschedulableError` instead of waiting for a node
  int priority = 0;                   // -1000 to 1000; order within the job, the higher one first
  // Alternatives to `label_selector`, as in `TaskOptions`.
  std::vector<Labels> fallback_selectors = {};
  // Groups of calls by name, each with its own limit of concurrent calls and its own threads.
  std::map<std::string, int> concurrency_groups = {};
  // Whether a call may start before earlier calls of its caller whose arguments are awaited.
  bool allow_out_of_order_execution = false;
};

// Options of one call of a method.
struct CallOptions {
  std::string name = {};  // name in lists and logs; default: the method's name
  Transport tensor_transport = Transport::object_store;  // path of tensors in the result
  std::optional<int> max_task_retries = {};  // retries of this call; absent: as for the actor
  int num_returns = 1;                       // 1, or with `split` the number of elements
  bool allow_fallback = false;               // whether another path may replace `tensor_transport`
  bool block_on_limit = true;                // true: `remote` blocks at a limit; false: it throws
  TensorPolicy tensor_policy = TensorPolicy::freeze;  // for tensors that stay in the producer
  std::string concurrency_group = {};                 // group of the actor; empty: none
  RetryExceptions retry_exceptions = false;  // as in `TaskOptions`, up to `max_task_retries`
  int stream_window = 64;  // `generator<T>`: items by which the call may precede its consumers
  // Compares all members.
  friend bool operator==(const CallOptions&, const CallOptions&) = default;
};

// Options of `get`, `try_get`, and `get_view`.
struct GetOptions {
  Transport tensor_transport = Transport::automatic;  // path of tensors
  // Destination of GPU tensors. Default: the same GPU if this process leases it, otherwise its
  // first leased GPU, otherwise host memory.
  std::optional<Device> device = {};
  bool allow_fallback = false;           // whether another path may replace `tensor_transport`
  std::optional<Duration> timeout = {};  // `GetTimeoutError` after this time; absent: none
};

// Options of `put`.
struct PutOptions {
  Transport tensor_transport = Transport::object_store;  // path of tensors in the value
  bool allow_fallback = false;  // whether another path may replace `tensor_transport`
  TensorPolicy tensor_policy = TensorPolicy::freeze;  // for tensors that stay in this process
};

// Options of `wait`.
struct WaitOptions {
  int num_returns = 1;                   // number of ready refs to wait for
  std::optional<Duration> timeout = {};  // absent: none
  bool fetch_local = true;               // whether ready means that the value is on this node
};

// Options of `cancel`.
struct CancelOptions {
  bool force = false;     // terminates the executor of a running task
  bool recursive = true;  // also cancels the task's child tasks
};

// Options of `kill`.
struct KillOptions {
  bool no_restart = true;  // false: the actor restarts if restarts are left
};

}  // namespace mobula
