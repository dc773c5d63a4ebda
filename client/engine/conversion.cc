#include "client/engine/conversion.h"

#include <algorithm>

#include "client/engine/caller/completions.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::client {
namespace {

// A label selector in the syntax of the options page: "v", "!v", "in(a,b)", "!in(a,b)".
std::string selector_text(const detail::LabelRule& rule) {
  using Operator = detail::LabelRule::Operator;
  std::string list;
  for (const auto& value : rule.values) list += (list.empty() ? "" : ",") + value;
  switch (rule.op) {
    case Operator::equals: return list;
    case Operator::not_equals: return "!" + list;
    case Operator::in: return "in(" + list + ")";
    case Operator::not_in: return "!in(" + list + ")";
  }
  return list;
}

Strategy strategy_of(const Scheduling& scheduling) {
  if (std::holds_alternative<Spread>(scheduling)) return SpreadStrategy{};
  if (const auto* affinity = std::get_if<NodeAffinity>(&scheduling)) {
    const auto node = NodeId::from_hex(affinity->node_id);
    return NodeAffinityStrategy{node.value_or(NodeId()), affinity->soft};
  }
  return DefaultStrategy{};
}

Labels selector_of(const std::vector<detail::LabelRule>& rules) {
  Labels selector;
  for (const auto& rule : rules) selector[rule.key] = selector_text(rule);
  return selector;
}

}  // namespace

Request request_of(const detail::ResourceRequest& request) {
  Request result;
  result.resources.set(resource::cpu, Quantity::from_units(request.cpu_units));
  result.resources.set(resource::gpu, Quantity::from_units(request.gpu_units));
  result.resources.set(resource::memory, Quantity::whole(request.memory_bytes));
  for (const auto& [name, units] : request.custom_units) {
    result.resources.add(name, Quantity::from_units(units));
  }
  result.required_totals.set(resource::cpu, Quantity::from_units(request.placing_cpu_units));
  result.gpu_memory = request.gpu_memory_bytes;
  result.accelerator_type = request.accelerator_type;
  result.priority = request.priority;
  result.label_selector = selector_of(request.labels);
  for (const auto& rules : request.fallback_labels) {
    result.fallback_selectors.push_back(selector_of(rules));
  }
  result.strategy = strategy_of(request.scheduling);
  if (request.placement) {
    result.placement.group = GroupId(bits(request.placement->group.raw_id()));
    result.placement.bundle_index = request.placement->bundle_index;
    result.placement.capture_children = request.placement->capture_child_tasks;
  }
  return result;
}

JobTerms terms_of(const detail::JobRequest& request) {
  JobTerms terms;
  terms.priority = request.priority;
  terms.weight = request.weight;
  for (const auto& [name, units] : request.quota_units) {
    terms.quota.emplace(name, Quantity::from_units(units));
  }
  return terms;
}

DemandClass demand_class_of(const detail::ResourceRequest& request, JobId job, ProgramId program,
                            std::int32_t max_calls, const GroupPlacement& captured) {
  DemandClass result;
  result.job = job;
  result.request = request_of(request);
  if (!request.placement) result.request.placement = captured;
  result.program = program;
  result.env = request.env;
  result.max_calls = max_calls;
  auto identity = encode(result);
  // The head reports an infeasible class once, so tasks that must fail in that case have a separate
  // class.
  if (request.fail_if_infeasible) identity.push_back(std::byte{1});
  result.id = ClassId(siphash128(job.bits(), identity));
  return result;
}

TransportPreference preference_of(Transport transport, bool allow_fallback, TensorPolicy policy) {
  TransportPreference preference{.direct = true, .named = {}, .allow_fallback = allow_fallback};
  if (policy == TensorPolicy::snapshot) preference.sharing = ElementSharing::snapshot;
  if (policy == TensorPolicy::alias) preference.sharing = ElementSharing::alias;
  switch (transport) {
    case Transport::automatic: return preference;
    case Transport::shm: preference.named = DirectPath::shm; return preference;
    case Transport::tcp: preference.named = DirectPath::tcp; return preference;
    case Transport::gloo: preference.named = DirectPath::gloo; return preference;
    case Transport::ucx: preference.named = DirectPath::ucx; return preference;
    case Transport::cuda_ipc: preference.named = DirectPath::cuda_ipc; return preference;
    case Transport::nccl: preference.named = DirectPath::nccl; return preference;
    case Transport::nixl: preference.named = DirectPath::nixl; return preference;
    case Transport::object_store: return {};
  }
  return {};
}

ValueRecord error_value_of(const detail::ErrorRecord& error) {
  ErrorRecord record;
  record.kind = ErrorKind::task;
  record.text = error.message;
  record.remote_type = error.remote_type;
  record.exception = Payload(detail::encode(error));
  ValueRecord value;
  value.is_error = true;
  value.bytes = Payload(encode(record));
  value.size_bytes = static_cast<std::int64_t>(value.bytes.size());
  return value;
}

namespace {

// Longer chains of causes are cut.
constexpr int max_causes = 8;

detail::ErrorRecord error_of(std::span<const std::byte> bytes, int causes_left) {
  const auto record = decode<ErrorRecord>(bytes);
  if (!record)
    return make_error(ErrorKind::other, "an error that cannot be read: " + record.error().text);
  if (!record->exception.empty()) {
    if (auto whole = detail::decode_error(record->exception.bytes())) return *std::move(whole);
  }
  detail::ErrorRecord error;
  error.kind = record->kind;
  error.message = record->text;
  error.remote_type = record->remote_type;
  error.task = record->task_name;
  if (!record->task.empty()) error.task_id = record->task.hex();
  if (!record->actor.empty()) error.actor_id = record->actor.hex();
  if (!record->node.empty()) error.node_id = record->node.hex();
  error.process = record->pid;
  error.signal = record->signal;
  error.exit_code = record->exit_code;
  error.log_tail = record->last_lines;
  error.resource = record->resource;
  error.cause = record->text;
  if (record->kind == ErrorKind::actor_died) error.reason = reason_of(record->end);
  if (record->cause.empty() || causes_left == 0) return error;
  error.nested.push_back(error_of(record->cause.bytes(), causes_left - 1));
  const auto& nested = error.nested.front();
  error.cause =
      nested.remote_type.empty() ? nested.message : nested.remote_type + ": " + nested.message;
  return error;
}

}  // namespace

detail::ErrorRecord error_of(const ValueRecord&, std::span<const std::byte> bytes) {
  return error_of(bytes, max_causes);
}

detail::ErrorRecord error_of(const Failure& failure) {
  switch (failure.code) {
    case ErrorCode::not_found: return make_error(ErrorKind::not_found, failure.text);
    case ErrorCode::invalid_argument: return make_error(ErrorKind::invalid_request, failure.text);
    case ErrorCode::already_exists: return make_error(ErrorKind::invalid_request, failure.text);
    case ErrorCode::resource_exhausted: return make_error(ErrorKind::other, failure.text);
    case ErrorCode::timed_out: return make_error(ErrorKind::connection, failure.text);
    case ErrorCode::permission_denied: return make_error(ErrorKind::permission, failure.text);
    case ErrorCode::cancelled: return make_error(ErrorKind::task_cancelled, failure.text);
    case ErrorCode::corrupt: return make_error(ErrorKind::protocol_mismatch, failure.text);
    case ErrorCode::unavailable: return make_error(ErrorKind::connection, failure.text);
  }
  return make_error(ErrorKind::other, failure.text);
}

detail::ErrorRecord store_error_of(const Failure& failure) {
  switch (failure.code) {
    case ErrorCode::resource_exhausted:
      return make_error(ErrorKind::object_store_full, failure.text);
    case ErrorCode::not_found:
    case ErrorCode::timed_out:
    case ErrorCode::corrupt: return make_error(ErrorKind::object_lost, failure.text);
    default: return error_of(failure);
  }
}

detail::ErrorRecord tensor_error_of(const Failure& failure) {
  switch (failure.code) {
    case ErrorCode::resource_exhausted: return make_error(ErrorKind::out_of_memory, failure.text);
    case ErrorCode::invalid_argument: return make_error(ErrorKind::invalid_request, failure.text);
    default: {
      auto error = make_error(ErrorKind::transfer, failure.text);
      error.reason = failure.text;
      return error;
    }
  }
}

detail::ErrorRecord make_error(detail::ErrorKind kind, std::string message) {
  detail::ErrorRecord error;
  error.kind = kind;
  error.message = std::move(message);
  return error;
}

detail::ErrorRecord cancelled_error(std::string_view operation) {
  if (in_callback()) return error_of(callback_failure(operation));
  return make_error(detail::ErrorKind::task_cancelled,
                    std::string(operation) + ": the task that waits was cancelled");
}

}  // namespace mobula::internal::client
