// Queries to the head: nodes, resources, named actors.
#include <nlohmann/json.hpp>

#include "client/api/completion/interruption.h"
#include "client/engine/conversion.h"
#include "client/engine/process_runtime.h"

namespace mobula::internal::client {
namespace {

using detail::Answer;
using Json = nlohmann::json;

constexpr Duration head_timeout = 30s;
constexpr Duration report_timeout = 5s;
constexpr Duration program_lifetime = 1s;
constexpr std::size_t most_known_programs = 256;

std::map<std::string, double> sums(const std::string& text, const char* column) {
  std::map<std::string, double> result;
  const Json answer = Json::parse(text);
  for (const auto& item : answer.at("items")) {
    for (const auto& [name, amounts] : item.at("resources").items()) {
      const bool down = item.at("state") != "ALIVE" && item.at("state") != "SUSPECT";
      const double amount = down ? 0 : amounts.at(column).get<double>();
      if (amount > 0 || result.contains(name)) result[name] += amount;
    }
  }
  return result;
}

template <class T, class Read>
Answer<T> read_json(const Answer<std::string>& text, Read read) {
  if (!text.ok()) return text.error();
  try {
    return read(text.value());
  } catch (const Json::exception& e) {
    return make_error(detail::ErrorKind::protocol_mismatch,
                      std::string("the reply of the head cannot be decoded: ") + e.what());
  }
}

detail::ErrorRecord query_error(const Failure& failed) {
  return failed.code == ErrorCode::cancelled ? detail::interrupted_error("query the head")
                                             : error_of(failed);
}

}  // namespace

Answer<std::string> ProcessRuntime::read_state(const std::string& kind,
                                               const std::string& argument) {
  auto lock = engine_->lock();
  auto answer = engine_->query(lock, ReadState{0, kind, argument}, monotonic_now() + head_timeout);
  if (!answer) return query_error(answer.error());
  const auto* read = std::get_if<ReadStateReply>(&*answer);
  if (read == nullptr || !read->error.empty()) {
    return make_error(detail::ErrorKind::connection,
                      read == nullptr ? "the reply of the head has another kind" : read->error);
  }
  return read->json;
}

detail::Done ProcessRuntime::report_experiment(std::string_view report) {
  auto lock = engine_->lock();
  auto answer = engine_->query(lock, ReadState{0, "experiment_report", std::string(report)},
                               monotonic_now() + report_timeout);
  if (!answer) return query_error(answer.error());
  const auto* read = std::get_if<ReadStateReply>(&*answer);
  if (read != nullptr && read->error.empty()) return {};
  return make_error(detail::ErrorKind::connection,
                    read == nullptr ? "the reply of the head has another kind" : read->error);
}

Answer<ProgramId> ProcessRuntime::program_of(std::string_view job_name) {
  {
    const auto lock = engine_->lock();
    const auto known = programs_.find(job_name);
    if (known != programs_.end() && monotonic_now() < known->second.until) return known->second.id;
  }
  const auto found = read_json<ProgramId>(
      read_state("program", std::string(job_name)),
      [](const std::string& text) -> Answer<ProgramId> {
        const Json answer = Json::parse(text);
        if (answer.contains("not_found"))
          return make_error(detail::ErrorKind::not_found, answer.at("not_found"));
        if (answer.contains("ambiguous"))
          return make_error(detail::ErrorKind::invalid_request, answer.at("ambiguous"));
        return ProgramId::from_hex(answer.at("program").get<std::string>()).value_or(ProgramId());
      });
  if (!found.ok()) return found;
  const auto lock = engine_->lock();
  if (programs_.size() >= most_known_programs) programs_.clear();
  programs_.insert_or_assign(std::string(job_name),
                             KnownProgram{found.value(), monotonic_now() + program_lifetime});
  return found;
}

Answer<std::vector<Node>> ProcessRuntime::nodes() {
  return read_json<std::vector<Node>>(read_state("nodes", ""), [](const std::string& text) {
    std::vector<Node> nodes;
    const Json answer = Json::parse(text);
    for (const auto& item : answer.at("items")) {
      Node node;
      node.node_id = item.at("node_id");
      node.alive = item.at("state") == "ALIVE" || item.at("state") == "SUSPECT";
      node.address = item.at("address");
      for (const auto& [name, amounts] : item.at("resources").items()) {
        node.resources[name] = amounts.at("total").get<double>();
      }
      for (const auto& [name, value] : item.at("labels").items()) node.labels[name] = value;
      nodes.push_back(std::move(node));
    }
    return nodes;
  });
}

Answer<std::map<std::string, double>> ProcessRuntime::cluster_resources() {
  return read_json<std::map<std::string, double>>(
      read_state("nodes", ""), [](const std::string& text) { return sums(text, "total"); });
}

Answer<std::map<std::string, double>> ProcessRuntime::available_resources() {
  return read_json<std::map<std::string, double>>(
      read_state("nodes", ""), [](const std::string& text) { return sums(text, "available"); });
}

Answer<std::vector<std::string>> ProcessRuntime::list_named_actors() {
  return read_json<std::vector<std::string>>(read_state("named_actors", options_.name_space),
                                             [](const std::string& text) {
                                               std::vector<std::string> names;
                                               const Json answer = Json::parse(text);
                                               for (const auto& item : answer.at("items"))
                                                 names.push_back(item.at("name"));
                                               return names;
                                             });
}

Answer<detail::NamedActor> ProcessRuntime::get_actor(std::string_view name,
                                                     std::string_view name_space) {
  auto lock = engine_->lock();
  FindActor question;
  question.name = name;
  question.name_space = name_space.empty() ? options_.name_space : std::string(name_space);
  const std::string searched = question.name_space;
  auto answer = engine_->query(lock, std::move(question), monotonic_now() + head_timeout);
  if (!answer) return query_error(answer.error());
  const auto* found = std::get_if<FindActorReply>(&*answer);
  if (found == nullptr || !found->found) {
    return make_error(detail::ErrorKind::not_found, "no actor is named '" + std::string(name) +
                                                        "' in namespace '" + searched + "'");
  }
  return detail::NamedActor{raw(found->actor.bits()), found->class_name};
}

}  // namespace mobula::internal::client
