// What a call may ask for: the options of init, tasks, actors, calls, get, put and wait. Aggregates
// for designated initialisers, checked when they are used (InvalidRequestError). Values.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include <mobula/amount.h>
#include <mobula/device.h>
#include <mobula/placement_group.h>

namespace mobula {

using Environment = std::map<std::string, std::string>;

// How tensors move. `object_store`: by way of the store. `automatic`: the best path there is.
enum class Transport : std::uint8_t {
  automatic,
  shm,
  tcp,
  gloo,
  ucx,
  cuda_ipc,
  nccl,
  object_store,
  nixl  // one-sided: for transfers between two processes, and for no group
};

// What the maker of tensors that stay in its process may do with their memory while others refer to the value.
// `freeze`: read it; mutable_view throws TensorSharedError. `snapshot`: what it likes, since the value is a copy that
// was made when it was returned or put. `alias`: write to it as well, without a copy: whoever reads there may see it
// happen, in the middle of it, so this is unsafe, and the first such write is warned of in the maker's log.
enum class TensorPolicy : std::uint8_t { freeze, snapshot, alias };

// Scheduling strategies. A selector of labels is an option of its own.
struct Default {
  friend bool operator==(const Default&, const Default&) = default;
};
struct Spread {
  friend bool operator==(const Spread&, const Spread&) = default;
};
struct NodeAffinity {
  std::string node_id = {};
  bool soft = false;
  friend bool operator==(const NodeAffinity&, const NodeAffinity&) = default;
};
using Scheduling = std::variant<Default, Spread, NodeAffinity>;

// Where in a group; without a group it opts out of the group of the task that submits.
struct Placement {
  PlacementGroup group = {};
  int bundle_index = -1;  // any
  bool capture_child_tasks = false;
  friend bool operator==(const Placement&, const Placement&) = default;
};

struct InitOptions {
  std::string address = {};
  std::optional<Amount> num_cpus = {};
  std::optional<Amount> num_gpus = {};
  std::optional<std::int64_t> gpu_memory = {};  // bytes of each device
  std::optional<std::int64_t> memory = {};      // bytes
  std::optional<std::int64_t> object_store_memory = {};
  Resources resources = {};
  std::string accelerator_type = {};
  Labels labels = {};
  std::string job_name = {};
  std::string name_space = {};
  Environment env = {};
  std::string log_level = {};
  std::int64_t max_pending_bytes = std::int64_t{1} << 30;
  int job_priority = 0;        // -1000 to 1000; higher is served first
  int job_weight = 1;          // 1 to 10000: its part beside jobs of the same priority
  Resources job_quota = {};    // the most that the job holds at once, by resource
};

struct TaskOptions {
  std::string name = {};
  Amount num_cpus = 1;
  Amount num_gpus = 0;
  std::int64_t gpu_memory = 0;  // bytes of each device
  std::int64_t memory = 0;      // bytes
  Resources resources = {};
  std::string accelerator_type = {};
  Labels label_selector = {};  // values: "v", "!v", "in(a,b)", "!in(a,b)"
  Scheduling scheduling = Default{};
  std::optional<Placement> placement = {};
  int num_returns = 1;
  int max_calls = -1;  // -1: 1 with accelerators, else 0, which is unlimited
  int max_retries = 3;
  bool retry_exceptions = false;
  Transport tensor_transport = Transport::object_store;
  Environment env = {};
  bool allow_fallback = false;
  bool block_on_limit = true;
  bool fail_if_infeasible = false;
  int priority = 0;  // -1000 to 1000, within the job; higher is served first
  // Selectors in place of label_selector, in order of preference: the first of all of them for which a
  // node has room now is taken; where none has, it waits for any.
  std::vector<Labels> fallback_selectors = {};
  TensorPolicy tensor_policy = TensorPolicy::freeze;  // of tensors that stay where they were made
};

struct ActorOptions {
  std::string name = {};
  std::string name_space = {};
  Lifetime lifetime = Lifetime::counted;
  bool get_if_exists = false;
  std::optional<Amount> num_cpus = {};
  Amount num_gpus = 0;
  std::int64_t gpu_memory = 0;  // bytes of each device
  std::int64_t memory = 0;      // bytes
  Resources resources = {};
  std::string accelerator_type = {};
  Labels label_selector = {};
  Scheduling scheduling = Default{};
  std::optional<Placement> placement = {};
  int max_restarts = 0;      // -1: for ever
  int max_task_retries = 0;  // -1: for ever
  int max_concurrency = 1;
  int max_pending_calls = -1;  // -1: no limit
  bool exclusive = false;      // never two incarnations at once
  Environment env = {};
  bool block_on_limit = true;
  bool fail_if_infeasible = false;
  int priority = 0;  // -1000 to 1000, within the job; higher is served first
  // Selectors in place of label_selector, in order of preference: the first of all of them for which a
  // node has room now is taken; where none has, it waits for any.
  std::vector<Labels> fallback_selectors = {};
};

struct CallOptions {
  std::string name = {};
  Transport tensor_transport = Transport::object_store;
  std::optional<int> max_task_retries = {};
  int num_returns = 1;
  bool allow_fallback = false;
  bool block_on_limit = true;
  TensorPolicy tensor_policy = TensorPolicy::freeze;  // of tensors that stay where they were made
};

struct GetOptions {
  Transport tensor_transport = Transport::automatic;
  std::optional<Device> device = {};
  bool allow_fallback = false;
  std::optional<Duration> timeout = {};
};

struct PutOptions {
  Transport tensor_transport = Transport::object_store;
  bool allow_fallback = false;
  TensorPolicy tensor_policy = TensorPolicy::freeze;
};

struct WaitOptions {
  int num_returns = 1;
  std::optional<Duration> timeout = {};
  bool fetch_local = true;
};

struct CancelOptions {
  bool force = false;
  bool recursive = true;
};

struct KillOptions {
  bool no_restart = true;
};

}  // namespace mobula
