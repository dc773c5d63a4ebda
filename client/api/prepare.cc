#include <mobula/detail/request.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include <mobula/errors.h>

#include "base/model/jobs/job_terms.h"
#include "base/quantity.h"
#include "client/api/rules.h"

namespace mobula::detail {

namespace {

namespace rules = internal::client;

// Converts a rejection to a value.
template <class Make>
auto answered(Make make) -> Answer<decltype(make())> {
  try {
    return make();
  } catch (const InvalidRequestError& refused) {
    return refused.record();
  }
}

// Resources common to tasks and actors, except CPUs.
template <class Options>
ResourceRequest resources_of(const Options& options) {
  rules::check_environment(options.env);
  rules::check_scheduling(options.scheduling);
  rules::check_placement(options.placement);

  internal::ExactResources exact;
  rules::keep(
      internal::read_requested({.num_gpus = options.num_gpus,
                                .gpu_memory = options.gpu_memory,
                                .memory = options.memory,
                                .resources = {options.resources.begin(), options.resources.end()},
                                .accelerator_type = options.accelerator_type},
                               rules::AmountKind::request, exact));
  ResourceRequest request;
  request.gpu_units = exact.gpu_units;
  request.gpu_memory_bytes = exact.gpu_memory_bytes;
  request.memory_bytes = exact.memory_bytes;
  request.custom_units = std::move(exact.custom_units);
  request.accelerator_type = std::move(exact.accelerator_type);
  request.has_devices = exact.has_devices;
  request.labels = rules::label_rules("label_selector", options.label_selector);
  request.fallback_labels = rules::fallback_rules(options.fallback_selectors);
  request.scheduling = options.scheduling;
  request.placement = options.placement;
  request.env = options.env;
  request.fail_if_infeasible = options.fail_if_infeasible;
  rules::check_priority("priority", options.priority);
  request.priority = options.priority;
  return request;
}

TaskRequest task_request(const TaskOptions& options) {
  rules::check_text("name", options.name);
  rules::check_at_least("num_returns", options.num_returns, 1);
  rules::check_at_least("max_calls", options.max_calls, -1);
  rules::check_at_least("max_retries", options.max_retries, -1);
  rules::check_at_least("stream_window", options.stream_window, 1);
  rules::check_transport(options.tensor_transport);
  rules::check_policy(options.tensor_policy);
  TaskRequest request;
  request.name = options.name;
  request.resources = resources_of(options);
  request.resources.cpu_units = rules::units_of("num_cpus", options.num_cpus);
  rules::check_bundle(request.resources);
  request.num_returns = options.num_returns;
  request.stream_window = options.stream_window;
  // A process that has used a device releases its memory only by exiting.
  request.max_calls =
      options.max_calls != -1 ? options.max_calls : (request.resources.has_devices ? 1 : 0);
  request.max_retries = options.max_retries;
  request.retry_exceptions = options.retry_exceptions;
  request.tensor_transport = options.tensor_transport;
  request.allow_fallback = options.allow_fallback;
  request.block_on_limit = options.block_on_limit;
  request.tensor_policy = options.tensor_policy;
  return request;
}

// Default CPUs of an actor: 1 for its lifetime if it requests a resource other than memory, else 1
// for its placement and 0 while it runs.
void set_actor_cpus(ResourceRequest& request, const std::optional<Amount>& num_cpus) {
  const std::int64_t one = internal::Quantity::units_per_one;
  if (num_cpus) {
    request.cpu_units = rules::units_of("num_cpus", *num_cpus);
  } else if (request.has_devices || !request.custom_units.empty() ||
             !request.accelerator_type.empty()) {
    request.cpu_units = one;
  } else {
    request.placing_cpu_units = one;
  }
}

ActorRequest actor_request(const ActorOptions& options) {
  rules::check_text("name", options.name);
  rules::check_text("name_space", options.name_space);
  if (options.get_if_exists && options.name.empty()) {
    rules::refuse("get_if_exists", "it needs a name", "no name");
  }
  rules::check_at_least("max_restarts", options.max_restarts, -1);
  rules::check_at_least("max_task_retries", options.max_task_retries, -1);
  rules::check_at_least("max_concurrency", options.max_concurrency, 1);
  rules::check_at_least("max_pending_calls", options.max_pending_calls, -1);
  ActorRequest request;
  request.name = options.name;
  request.name_space = options.name_space;
  request.detached = options.lifetime == Lifetime::detached;
  request.get_if_exists = options.get_if_exists;
  request.resources = resources_of(options);
  set_actor_cpus(request.resources, options.num_cpus);
  rules::check_bundle(request.resources);
  request.max_restarts = options.max_restarts;
  request.max_task_retries = options.max_task_retries;
  request.max_concurrency = options.max_concurrency;
  for (const auto& [name, limit] : options.concurrency_groups) {
    rules::check_text("concurrency_groups", name);
    if (name.empty()) rules::refuse("concurrency_groups", "a name is not empty", "an empty name");
    rules::check_at_least("concurrency_groups", limit, 1);
  }
  request.concurrency_groups = options.concurrency_groups;
  request.allow_out_of_order_execution = options.allow_out_of_order_execution;
  request.max_pending_calls = options.max_pending_calls;
  request.exclusive = options.exclusive;
  request.block_on_limit = options.block_on_limit;
  return request;
}

CallRequest call_request(const CallOptions& options) {
  rules::check_text("name", options.name);
  rules::check_text("concurrency_group", options.concurrency_group);
  rules::check_at_least("stream_window", options.stream_window, 1);
  rules::check_at_least("num_returns", options.num_returns, 1);
  rules::check_transport(options.tensor_transport);
  rules::check_policy(options.tensor_policy);
  if (options.max_task_retries) {
    rules::check_at_least("max_task_retries", *options.max_task_retries, -1);
  }
  return {.name = options.name,
          .tensor_transport = options.tensor_transport,
          .max_task_retries = options.max_task_retries,
          .num_returns = options.num_returns,
          .allow_fallback = options.allow_fallback,
          .block_on_limit = options.block_on_limit,
          .beside = false,
          .tensor_policy = options.tensor_policy,
          .concurrency_group = options.concurrency_group,
          .retry_exceptions = options.retry_exceptions,
          .stream_window = options.stream_window};
}

void check_log_level(const std::string& level) {
  constexpr std::array<std::string_view, 9> levels = {
      "", "trace", "debug", "info", "warn", "warning", "error", "critical", "off"};
  if (std::find(levels.begin(), levels.end(), level) == levels.end()) {
    rules::refuse("log_level", "trace, debug, info, warn, error, critical or off", level);
  }
}

// Resources of a node can be set only by the process that starts it.
void check_joining(const InitOptions& options) {
  const std::array<std::pair<const char*, bool>, 7> given = {{
      {"num_cpus", options.num_cpus.has_value()},
      {"num_gpus", options.num_gpus.has_value()},
      {"gpu_memory", options.gpu_memory.has_value()},
      {"memory", options.memory.has_value()},
      {"object_store_memory", options.object_store_memory.has_value()},
      {"resources", !options.resources.empty()},
      {"accelerator_type", !options.accelerator_type.empty()},
  }};
  for (const auto& [field, is_given] : given) {
    if (is_given) {
      rules::refuse(field, "a program that joins a cluster brings no resources",
                    "a resource and an address; drop one of them");
    }
  }
}

JobRequest job_request(const InitOptions& options) {
  rules::check_priority("job_priority", options.job_priority);
  if (options.job_weight < 1 || options.job_weight > internal::greatest_weight) {
    rules::refuse("job_weight", "from 1 to " + std::to_string(internal::greatest_weight),
                  std::to_string(options.job_weight));
  }
  return {.priority = options.job_priority,
          .weight = options.job_weight,
          .quota_units = rules::quota_units(options.job_quota)};
}

NodeRequest node_request(const InitOptions& options, bool joins) {
  rules::check_text("job_name", options.job_name);
  rules::check_text("name_space", options.name_space);
  rules::check_text("accelerator_type", options.accelerator_type);
  rules::check_environment(options.env);
  rules::check_labels(options.labels);
  rules::check_at_least("max_pending_bytes", options.max_pending_bytes, 1);
  check_log_level(options.log_level);
  job_request(options);
  if (joins) check_joining(options);

  auto named = rules::named_resources(options.resources, rules::AmountKind::total);
  NodeRequest node;
  if (options.num_cpus) node.cpu_units = rules::units_of("num_cpus", *options.num_cpus);
  if (options.num_gpus) node.gpu_units = rules::units_of("num_gpus", *options.num_gpus);
  if (named.gpu_units) {
    if (node.gpu_units) {
      rules::refuse("num_gpus", "num_gpus is given once", "num_gpus, and gpu among the resources");
    }
    node.gpu_units = named.gpu_units;
  }
  if (options.gpu_memory) rules::check_bytes("gpu_memory", *options.gpu_memory);
  if (options.memory) rules::check_bytes("memory", *options.memory);
  if (options.object_store_memory) {
    rules::check_bytes("object_store_memory", *options.object_store_memory);
  }
  node.gpu_memory_bytes = options.gpu_memory;
  node.memory_bytes = options.memory;
  node.object_store_bytes = options.object_store_memory;
  node.custom_units = std::move(named.custom_units);
  node.accelerator_type =
      options.accelerator_type.empty() ? named.accelerator_type : options.accelerator_type;
  node.labels = options.labels;
  return node;
}

// A longer timeout counts as unlimited. Far below the range of the clock.
constexpr double longest_timeout_s = 10.0 * 365 * 24 * 3600;

}  // namespace

Prepared<TaskRequest> prepare(const TaskOptions& options) {
  return answered([&] { return std::make_shared<const TaskRequest>(task_request(options)); });
}

Prepared<ActorRequest> prepare(const ActorOptions& options) {
  return answered([&] { return std::make_shared<const ActorRequest>(actor_request(options)); });
}

Prepared<CallRequest> prepare(const CallOptions& options) {
  return answered([&] { return std::make_shared<const CallRequest>(call_request(options)); });
}

Prepared<CallRequest> prepare(const CallOptions& options, std::string_view group) {
  if (group.empty() || !options.concurrency_group.empty()) return prepare(options);
  CallOptions completed = options;
  completed.concurrency_group = group;
  return prepare(completed);
}

Answer<NodeRequest> prepare(const InitOptions& options, bool joins) {
  return answered([&] { return node_request(options, joins); });
}

Answer<JobRequest> prepare_job(const InitOptions& options) {
  return answered([&] { return job_request(options); });
}

const std::shared_ptr<const TaskRequest>& default_task_request() {
  static const auto made = std::make_shared<const TaskRequest>(task_request({}));
  return made;
}

const std::shared_ptr<const ActorRequest>& default_actor_request() {
  static const auto made = std::make_shared<const ActorRequest>(actor_request({}));
  return made;
}

const std::shared_ptr<const CallRequest>& default_call_request() {
  static const auto made = std::make_shared<const CallRequest>();
  return made;
}

void check_returns(int given, int refs) {
  if (given != 1 && given != refs) {
    rules::refuse("num_returns",
                  "1, or the number of parts of a call with split(): " + std::to_string(refs),
                  std::to_string(given));
  }
}

void check_name(const char* field, const std::string& name) { rules::check_text(field, name); }

Deadline deadline_after(const std::optional<Duration>& timeout) {
  if (!timeout) return std::nullopt;
  const double seconds = timeout->count();
  if (std::isnan(seconds) || seconds < 0) {
    rules::refuse("timeout", "a timeout is not negative", std::to_string(seconds) + " s");
  }
  if (seconds > longest_timeout_s) return std::nullopt;
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(*timeout);
}

GetRequest get_request(const GetOptions& options) {
  rules::check_reading(options.tensor_transport, options.device);
  return {.deadline = deadline_after(options.timeout),
          .tensor_transport = options.tensor_transport,
          .device = options.device,
          .allow_fallback = options.allow_fallback};
}

PutRequest put_request(const PutOptions& options) {
  rules::check_transport(options.tensor_transport);
  rules::check_policy(options.tensor_policy);
  return {.tensor_transport = options.tensor_transport,
          .allow_fallback = options.allow_fallback,
          .tensor_policy = options.tensor_policy};
}

void check_wait(const WaitOptions& options, std::size_t given) {
  rules::check_at_least("num_returns", options.num_returns, 1);
  if (static_cast<std::size_t>(options.num_returns) > given) {
    rules::refuse("num_returns", "at most the number of refs given",
                  std::to_string(options.num_returns) + " of " + std::to_string(given));
  }
}

}  // namespace mobula::detail
