#include "client/console/call_options.h"

#include <fmt/format.h>

#include <functional>
#include <limits>
#include <map>
#include <string>

#include "base/text/json_writer.h"

namespace mobula::internal::runtime::console {
namespace {

// False: the value has another type.
using Setter = std::function<bool(const Json&)>;
using Setters = std::map<std::string, Setter>;

Setter amount(Amount& field) {
  return [&field](const Json& json) {
    if (!json.is_number()) return false;
    field = json.get<double>();
    return true;
  };
}

Setter amount(std::optional<Amount>& field) {
  return [&field](const Json& json) {
    if (!json.is_number()) return false;
    field = json.get<double>();
    return true;
  };
}

template <class Number>
Setter whole(Number& field) {
  return [&field](const Json& json) {
    if (!json.is_number_integer()) return false;
    const auto number = json.get<std::int64_t>();
    if (number < std::numeric_limits<Number>::min() || number > std::numeric_limits<Number>::max())
      return false;
    field = static_cast<Number>(number);
    return true;
  };
}

Setter flag(bool& field) {
  return [&field](const Json& json) {
    if (json.is_boolean()) field = json.get<bool>();
    return json.is_boolean();
  };
}

Setter text(std::string& field) {
  return [&field](const Json& json) {
    if (json.is_string()) field = json.get<std::string>();
    return json.is_string();
  };
}

Setter texts(std::map<std::string, std::string>& field) {
  return [&field](const Json& json) {
    if (!json.is_object()) return false;
    for (const auto& [name, value] : json.items()) {
      if (!value.is_string()) return false;
      field[name] = value.get<std::string>();
    }
    return true;
  };
}

Setter amounts(Resources& field) {
  return [&field](const Json& json) {
    if (!json.is_object()) return false;
    for (const auto& [name, value] : json.items()) {
      if (!value.is_number()) return false;
      field[name] = value.get<double>();
    }
    return true;
  };
}

Setter lifetime(Lifetime& field) {
  return [&field](const Json& json) {
    field = json == "detached" ? Lifetime::detached : Lifetime::counted;
    return json == "detached" || json == "counted";
  };
}

Result<void> take(const Json& json, const Setters& setters) {
  for (const auto& [name, value] : json.items()) {
    const auto setter = setters.find(name);
    if (setter == setters.end()) {
      std::string known;
      for (const auto& [each, unused] : setters) known += (known.empty() ? "" : ", ") + each;
      return failure(ErrorCode::invalid_argument,
                     fmt::format("with {}: unknown option; the options are {}", name, known));
    }
    if (!setter->second(value)) {
      return failure(
          ErrorCode::invalid_argument,
          fmt::format("with {}={}: the value does not fit the option", name, json_text(value)));
    }
  }
  return {};
}

template <class Options>
Setters common_setters(Options& options) {
  return {{"name", text(options.name)},
          {"num_cpus", amount(options.num_cpus)},
          {"num_gpus", amount(options.num_gpus)},
          {"gpu_memory", whole(options.gpu_memory)},
          {"memory", whole(options.memory)},
          {"resources", amounts(options.resources)},
          {"accelerator_type", text(options.accelerator_type)},
          {"label_selector", texts(options.label_selector)},
          {"env", texts(options.env)},
          {"fail_if_infeasible", flag(options.fail_if_infeasible)},
          {"priority", whole(options.priority)}};
}

}  // namespace

Result<TaskOptions> task_options(const Json& json) {
  TaskOptions options;
  Setters setters = common_setters(options);
  bool retry_exceptions = false;
  setters.insert({{"max_calls", whole(options.max_calls)},
                  {"max_retries", whole(options.max_retries)},
                  {"retry_exceptions", flag(retry_exceptions)}});
  if (auto taken = take(json, setters); !taken) return taken.error();
  options.retry_exceptions = retry_exceptions;
  return options;
}

Result<ActorOptions> actor_options(const Json& json) {
  ActorOptions options;
  Setters setters = common_setters(options);
  int max_concurrency = 1;
  setters.insert({{"name_space", text(options.name_space)},
                  {"lifetime", lifetime(options.lifetime)},
                  {"get_if_exists", flag(options.get_if_exists)},
                  {"max_restarts", whole(options.max_restarts)},
                  {"max_task_retries", whole(options.max_task_retries)},
                  {"max_concurrency", whole(max_concurrency)},
                  {"max_pending_calls", whole(options.max_pending_calls)},
                  {"exclusive", flag(options.exclusive)}});
  if (auto taken = take(json, setters); !taken) return taken.error();
  if (json.contains("max_concurrency")) options.max_concurrency = max_concurrency;
  return options;
}

Result<CallOptions> method_options(const Json& json) {
  CallOptions options;
  int retries = 0;
  const Setters setters{{"name", text(options.name)}, {"max_task_retries", whole(retries)}};
  if (auto taken = take(json, setters); !taken) return taken.error();
  if (json.contains("max_task_retries")) options.max_task_retries = retries;
  return options;
}

}  // namespace mobula::internal::runtime::console
