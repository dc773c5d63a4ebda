// Requests to a provider of nodes and their answers, as values and as JSON, by the contract of
// docs/providers.md. Both sides use this file: the runner writes requests and judges answers, and
// the built-in providers read requests and write answers.
// Thread: any; pure.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "deploy/fleet/core/failure_kind.h"
#include "deploy/fleet/core/instance.h"

namespace mobula::internal::fleet {

inline constexpr int provider_contract_version = 1;
inline constexpr std::size_t max_provider_bytes = std::size_t{8}
                                                  << 20;  // limit of a request and of an answer
inline constexpr std::size_t max_instance_name = 63;      // a label of DNS
inline constexpr std::size_t max_instance_ref = 256;
inline constexpr std::size_t max_provider_text = 1024;  // longer texts are cut

enum class ProviderCall { describe, launch, list, end };
std::string_view to_string(ProviderCall call);

// An instance to launch, or (name and ref alone) one to end.
struct InstanceSpec {
  std::string name;  // chosen by the caller, for launches and their repetitions
  std::string ref{};
  std::string type{};
  std::string ticket{};                         // a join token; empty: the head runs without keys
  std::map<std::string, std::string> labels{};  // labels of the agent, with mobula.io/instance
  std::map<std::string, double> resources{};    // amounts of the node type
  nlohmann::ordered_json config =
      nlohmann::ordered_json::object();  // `node_config` of the node type
};

struct ProviderRequest {
  ProviderCall call = ProviderCall::list;
  std::string cluster{};     // its name
  std::string cluster_id{};  // instances are mobula-<cluster_id>-<n>
  std::string head{};        // HOST:PORT
  nlohmann::ordered_json settings =
      nlohmann::ordered_json::object();  // `provider` of the types file
  std::vector<InstanceSpec> instances{};
};

// The answer for one instance: of a launch or an end its ref or a failure, of a list its state.
struct InstanceReply {
  std::string name;
  std::string ref{};
  std::optional<ProviderFailure> error{};
  std::string type{};  // list: as launched; empty: unknown
  ProviderState state = ProviderState::running;
  std::string reason{};                   // text: why it is pending or failed
  std::optional<std::int64_t> ends_at{};  // seconds since 1970 at which the provider ends it
};

struct ProviderReply {
  std::uint64_t number = 0;  // number of the call
  ProviderCall call = ProviderCall::list;
  std::optional<ProviderFailure> error{};  // failure of the whole call
  // Of launch and end: one per requested instance, in its order.
  std::vector<InstanceReply> instances{};
  bool complete = true;                       // list: the rows are all instances
  std::string provider{};                     // describe: its name
  std::optional<std::int64_t> max_pending{};  // describe: launches at a time that may be pending
  std::vector<std::string> warnings{};        // breaches of the contract, notes of describe
};

std::string text_of(const ProviderRequest& request);
// Errors: invalid_argument names the member.
Result<ProviderRequest> parse_provider_request(const std::string& text);

std::string text_of(const ProviderReply& reply);
// Judges the answer of a provider. Garbage is a transient failure of the whole call. A faulty
// answer for an instance is a transient failure of that instance, and makes a list incomplete.
ProviderReply judge_provider_reply(const ProviderRequest& request, const std::string& text);

// Returns the program and the arguments of the provider with these settings: `command`, or for a
// built-in `type` the words after the path of mobula. Errors: invalid_argument.
Result<std::vector<std::string>> provider_command(const nlohmann::ordered_json& settings,
                                                  const std::string& mobula = "/proc/self/exe");

// One line of at most `max_provider_text` bytes without control characters.
std::string plain_text(std::string_view text);

}  // namespace mobula::internal::fleet
