// Options after validation: exact units, and resources separated by meaning.
// Thread: owner (plain values).
// Units: resource amounts in 1/10000.
// Errors: invalid_request with field and rule, before anything is sent.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mobula/detail/error_record.h>
#include <mobula/detail/export.h>
#include <mobula/options.h>

namespace mobula::detail {

// One condition on a node's labels. The operators `equals` and `not_equals` have one value.
struct LabelRule {
  enum class Operator : std::uint8_t { equals, not_equals, in, not_in };
  std::string key = {};
  Operator op = Operator::equals;
  std::vector<std::string> values = {};

  friend bool operator==(const LabelRule&, const LabelRule&) = default;
};

// A request for resources, in units of 1/10000.
struct ResourceRequest {
  std::int64_t cpu_units = 0;
  std::int64_t placing_cpu_units = 0;  // needed as the node's total, not held
  std::int64_t gpu_units = 0;
  std::int64_t gpu_memory_bytes = 0;  // bytes per device
  std::int64_t memory_bytes = 0;
  std::vector<std::pair<std::string, std::int64_t>> custom_units = {};  // other resources by name
  std::string accelerator_type = {};
  std::vector<LabelRule> labels = {};
  std::vector<std::vector<LabelRule>> fallback_labels = {};
  Scheduling scheduling = Default{};
  std::optional<Placement> placement = {};
  Environment env = {};
  bool fail_if_infeasible = false;
  int priority = 0;

  // Whether the request includes an accelerator of any kind.
  bool has_devices = false;

  friend bool operator==(const ResourceRequest&, const ResourceRequest&) = default;
};

struct TaskRequest {
  std::string name = {};
  ResourceRequest resources = {};
  int num_returns = 1;
  int max_calls = 0;    // 0: unlimited; the -1 of the options is resolved
  int max_retries = 3;  // -1: unlimited
  RetryExceptions retry_exceptions = {};
  Transport tensor_transport = Transport::object_store;
  bool allow_fallback = false;
  bool block_on_limit = true;
  TensorPolicy tensor_policy = TensorPolicy::freeze;
  int stream_window = 64;

  friend bool operator==(const TaskRequest&, const TaskRequest&) = default;
};

struct ActorRequest {
  std::string name = {};
  std::string name_space = {};  // empty: namespace of the job
  bool detached = false;
  bool get_if_exists = false;
  ResourceRequest resources = {};
  int max_restarts = 0;
  int max_task_retries = 0;
  DefaultedInt max_concurrency = {};
  int max_pending_calls = -1;
  bool exclusive = false;
  bool block_on_limit = true;
  std::map<std::string, int> concurrency_groups = {};
  bool allow_out_of_order_execution = false;
  int threads = 0;  // threads that run calls outside of groups; 0: max_concurrency
};

struct CallRequest {
  std::string name = {};
  Transport tensor_transport = Transport::object_store;
  std::optional<int> max_task_retries = {};  // absent: as for the actor
  int num_returns = 1;
  bool allow_fallback = false;
  bool block_on_limit = true;
  bool beside = false;  // internal call, independent of the actor's other calls
  TensorPolicy tensor_policy = TensorPolicy::freeze;
  std::string concurrency_group = {};
  RetryExceptions retry_exceptions = {};
  int stream_window = 64;

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

// The node of a local cluster, for `init`. Units are 1/10000; absent values are detected.
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

// The priority, weight, and quota of a job, for `init`.
struct JobRequest {
  int priority = 0;
  int weight = 1;
  std::map<std::string, std::int64_t> quota_units = {};
};

template <class Request>
using Prepared = Answer<std::shared_ptr<const Request>>;

// Failures have the kind invalid_request and name the field and the rule.
MOBULA_API Prepared<TaskRequest> prepare(const TaskOptions& options);
MOBULA_API Prepared<ActorRequest> prepare(const ActorOptions& options);
MOBULA_API Prepared<CallRequest> prepare(const CallOptions& options);
// With `group`, unless the options name a group.
MOBULA_API Prepared<CallRequest> prepare(const CallOptions& options, std::string_view group);
// Throws InvalidRequestError.
MOBULA_API GroupRequest prepare_group(const std::vector<Resources>& bundles, Strategy strategy,
                                      const PlacementGroupOptions& options);
// Validates all of InitOptions. `joins` states that an address is known, so that resource fields
// are invalid.
MOBULA_API Answer<NodeRequest> prepare(const InitOptions& options, bool joins);
MOBULA_API Answer<JobRequest> prepare_job(const InitOptions& options);

// Requests of calls without options, created once.
MOBULA_API const std::shared_ptr<const TaskRequest>& default_task_request();
MOBULA_API const std::shared_ptr<const ActorRequest>& default_actor_request();
MOBULA_API const std::shared_ptr<const CallRequest>& default_call_request();

// The following functions throw InvalidRequestError.
//
// Requires that `given` is 1 or the number of refs that the call returns.
MOBULA_API void check_returns(int given, int refs);
MOBULA_API void check_name(const char* field, const std::string& name);
// Returns no deadline without a timeout. Rejects a negative or NaN timeout.
MOBULA_API Deadline deadline_after(const std::optional<Duration>& timeout);
MOBULA_API GetRequest get_request(const GetOptions& options);
MOBULA_API PutRequest put_request(const PutOptions& options);
MOBULA_API void check_wait(const WaitOptions& options, std::size_t given);

}  // namespace mobula::detail
