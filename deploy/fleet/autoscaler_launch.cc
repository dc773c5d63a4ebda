#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/text/json_writer.h"
#include "deploy/fleet/autoscaler.h"
#include "protocol/tickets/token.h"

namespace mobula::internal::fleet {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration query_timeout_of_tickets = 30s;
// A slow machine must be able to use its ticket after the end of the launch timeout is decided.
constexpr Duration ticket_margin = std::chrono::minutes(5);

}  // namespace

// Each instance gets a separate ticket before its launch. A repeated launch uses the same.
void Autoscaler::execute(const LaunchInstances& command) {
  const auto order = std::make_shared<const LaunchInstances>(command);
  const auto left = std::make_shared<std::size_t>(command.names.size());
  const auto fault = std::make_shared<std::string>();
  log(fmt::format("autoscaler: launch type={} count={}", command.type, command.names.size()));
  for (const auto& name : command.names) {
    make_ticket(name, [this, order, left, fault](const Result<void>& made) {
      if (!made && fault->empty()) *fault = made.error().text;
      if (--*left > 0) return;
      if (fault->empty()) return send_launch(*order);
      fail_launch(*order, "ticket: " + *fault);
    });
  }
}

void Autoscaler::make_ticket(const std::string& name,
                             std::function<void(const Result<void>&)> done) {
  if (!head_.head() || !head_.head()->key || tickets_.contains(name)) {
    (void)loop_.post([done] { done({}); });
    return;
  }
  const auto keys = CurveKeys::generate();
  if (!keys) {
    (void)loop_.post([done, why = keys.error()] { done(why); });
    return;
  }
  const KeyFile& own = *head_.head()->key;
  const Token token{.cluster = own.cluster,
                    .address = head_.head()->address,
                    .head_curve_key = own.head_curve_key,
                    .head_signing_key = own.head_signing_key,
                    .role = "agent",
                    .public_key = keys->public_key,
                    .secret_key = keys->secret_key};
  const Json request = {{"name", name},
                        {"role", "agent"},
                        {"public_key", keys->public_key},
                        {"expires_ms", (options_.types.launch_timeout + ticket_margin) / 1ms},
                        {"readable_keys", ""}};
  head_.query("token_create", "", json_text(request), query_timeout_of_tickets,
              [this, name, token, done](const Result<std::string>& text) {
                if (!text) return done(text.error());
                Token made = token;
                const Json answer = Json::parse(*text, nullptr, false);
                if (answer.is_object()) made.address = answer.value("address", token.address);
                tickets_[name] = to_text(made);
                done({});
              });
}

void Autoscaler::send_launch(const LaunchInstances& command) {
  const auto type = std::ranges::find(options_.types.types, command.type, &planner::NodeType::name);
  auto request = request_of(ProviderCall::launch);
  for (const auto& name : command.names) request.instances.push_back(spec_of(name, *type));
  call(std::move(request), [this, command](const ProviderReply& reply) {
    LaunchAnswered answer{command.type, {}};
    for (const auto& name : command.names) {
      InstanceAnswer row{name, "", reply.error};
      const auto at = std::ranges::find(reply.instances, name, &InstanceReply::name);
      if (!reply.error && at != reply.instances.end()) row = {name, at->ref, at->error};
      if (!reply.error && at == reply.instances.end()) {
        row.failure = ProviderFailure{FailureKind::transient, "no reply for this instance"};
      }
      answer.answers.push_back(std::move(row));
    }
    step(std::move(answer));
  });
}

void Autoscaler::fail_launch(const LaunchInstances& command, const std::string& why) {
  LaunchAnswered answer{command.type, {}};
  for (const auto& name : command.names) {
    answer.answers.push_back({name, "", ProviderFailure{FailureKind::transient, why}});
  }
  step(std::move(answer));
}

InstanceSpec Autoscaler::spec_of(const std::string& name, const planner::NodeType& type) const {
  InstanceSpec spec;
  spec.name = name;
  spec.type = type.name;
  if (const auto at = tickets_.find(name); at != tickets_.end()) spec.ticket = at->second;
  spec.labels = {type.shape.labels.begin(), type.shape.labels.end()};
  spec.labels[planner::node_type_label] = type.name;
  spec.labels[instance_label] = name;
  const auto accelerator = [&](const std::string& each) {
    spec.resources[std::string(resource::accelerator_prefix) + each] = 1;
  };
  for (const auto& each : type.shape.accelerator_types) accelerator(each);
  for (const auto& each : type.shape.resources) {
    spec.resources[each.name] = type.shape.total(each.name).to_double();
    for (const auto& instance : each.instances) {
      for (const auto& device : instance.types) accelerator(device);
    }
  }
  const auto config = options_.types.configs.find(type.name);
  if (config != options_.types.configs.end()) spec.config = nlohmann::json::parse(config->second);
  return spec;
}

// The ticket of an instance that joined is the membership of its machine.
void Autoscaler::execute(const RevokeTicket& command) {
  tickets_.erase(command.name);
  if (!head_.head() || !head_.head()->key) return;
  head_.query("token_revoke", "", command.name, query_timeout_of_tickets,
              [](const Result<std::string>&) {});
}

}  // namespace mobula::internal::fleet
