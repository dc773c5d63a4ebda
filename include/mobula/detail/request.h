// Options as the runtime receives them: checked, in exact units, resources told apart by meaning.
// Values. What is wrong with options is found here, before anything is sent.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <mobula/detail/error_record.h>
#include <mobula/detail/export.h>
#include <mobula/options.h>

namespace mobula::detail {

// One condition on a node's labels. Operators `equals` and `not_equals` have one value.
struct LabelRule {
  enum class Operator : std::uint8_t { equals, not_equals, in, not_in };
  std::string key = {};
  Operator op = Operator::equals;
  std::vector<std::string> values = {};

  friend bool operator==(const LabelRule&, const LabelRule&) = default;
};

// Units are 1/10000.
struct ResourceRequest {
  std::int64_t cpu_units = 0;
  std::int64_t placing_cpu_units = 0;  // must exist in total on the node, and is not held
  std::int64_t gpu_units = 0;
  std::int64_t gpu_memory_bytes = 0;  // of each device
  std::int64_t memory_bytes = 0;
  std::vector<std::pair<std::string, std::int64_t>> custom_units =
      {};  // by name; none of the above
  std::string accelerator_type = {};
  std::vector<LabelRule> labels = {};
  std::vector<std::vector<LabelRule>> fallback_labels = {};
  Scheduling scheduling = Default{};
  std::optional<Placement> placement = {};
  Environment env = {};
  bool fail_if_infeasible = false;
  int priority = 0;

  // Whether an accelerator of any kind is asked for.
  bool has_devices = false;

  friend bool operator==(const ResourceRequest&, const ResourceRequest&) = default;
};

struct TaskRequest {
  std::string name = {};
  ResourceRequest resources = {};
  int num_returns = 1;
  int max_calls = 0;    // 0: unlimited; -1 of the options is resolved
  int max_retries = 3;  // -1: for ever
  bool retry_exceptions = false;
  Transport tensor_transport = Transport::object_store;
  bool allow_fallback = false;
  bool block_on_limit = true;
  TensorPolicy tensor_policy = TensorPolicy::freeze;

  friend bool operator==(const TaskRequest&, const TaskRequest&) = default;
};

struct ActorRequest {
  std::string name = {};
  std::string name_space = {};  // empty: the job's
  bool detached = false;
  bool get_if_exists = false;
  ResourceRequest resources = {};
  int max_restarts = 0;
  int max_task_retries = 0;
  int max_concurrency = 1;
  int max_pending_calls = -1;
  bool exclusive = false;
  bool block_on_limit = true;
};

struct CallRequest {
  std::string name = {};
  Transport tensor_transport = Transport::object_store;
  std::optional<int> max_task_retries = {};  // empty: the actor's
  int num_returns = 1;
  bool allow_fallback = false;
  bool block_on_limit = true;
  bool beside = false;  // of the library's own: does not wait for the actor's other calls, nor they for it
  TensorPolicy tensor_policy = TensorPolicy::freeze;

  friend bool operator==(const CallRequest&, const CallRequest&) = default;
};

struct GroupRequest {
  std::string name = {};
  bool detached = false;
  Strategy strategy = Strategy::pack;
  std::vector<ResourceRequest> bundles = {};
  int priority = 0;
};

struct PutRequest {
  Transport tensor_transport = Transport::object_store;
  bool allow_fallback = false;
  TensorPolicy tensor_policy = TensorPolicy::freeze;
};

using Deadline = std::optional<std::chrono::steady_clock::time_point>;

struct GetRequest {
  Deadline deadline = {};
  Transport tensor_transport = Transport::automatic;
  std::optional<Device> device = {};
  bool allow_fallback = false;
};

// For init. Units are 1/10000; empty: to be detected.
struct NodeRequest {
  std::optional<std::int64_t> cpu_units = {};
  std::optional<std::int64_t> gpu_units = {};
  std::optional<std::int64_t> gpu_memory_bytes = {};
  std::optional<std::int64_t> memory_bytes = {};
  std::optional<std::int64_t> object_store_bytes = {};
  std::vector<std::pair<std::string, std::int64_t>> custom_units = {};
  std::string accelerator_type = {};
  Labels labels = {};
};

// What init asks for as a job beside others.
struct JobRequest {
  int priority = 0;
  int weight = 1;
  std::map<std::string, std::int64_t> quota_units = {};
};

template <class Request>
using Prepared = Answer<std::shared_ptr<const Request>>;

// A failure is of kind invalid_request and names the field and the rule.
MOBULA_API Prepared<TaskRequest> prepare(const TaskOptions& options);
MOBULA_API Prepared<ActorRequest> prepare(const ActorOptions& options);
MOBULA_API Prepared<CallRequest> prepare(const CallOptions& options);
// Throws InvalidRequestError.
MOBULA_API GroupRequest prepare_group(const std::vector<Resources>& bundles, Strategy strategy,
                                      const PlacementGroupOptions& options);
// The whole of InitOptions is checked; `joins` says that an address is known, from wherever, so
// that resources may not be given.
MOBULA_API Answer<NodeRequest> prepare(const InitOptions& options, bool joins);
MOBULA_API Answer<JobRequest> prepare_job(const InitOptions& options);

// The requests of calls without options, made once.
MOBULA_API const std::shared_ptr<const TaskRequest>& default_task_request();
MOBULA_API const std::shared_ptr<const ActorRequest>& default_actor_request();
MOBULA_API const std::shared_ptr<const CallRequest>& default_call_request();

// The rest throw InvalidRequestError.
//
// `given` must be 1, or the number of refs that the call gives back.
MOBULA_API void check_returns(int given, int refs);
MOBULA_API void check_name(const char* field, const std::string& name);
// Empty for no time-out. Refuses a negative or undefined one.
MOBULA_API Deadline deadline_after(const std::optional<Duration>& timeout);
MOBULA_API GetRequest get_request(const GetOptions& options);
MOBULA_API PutRequest put_request(const PutOptions& options);
MOBULA_API void check_wait(const WaitOptions& options, std::size_t given);

}  // namespace mobula::detail
