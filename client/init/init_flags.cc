#include "client/init/init_flags.h"

#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/quantity.h"
#include "base/text/amount_text.h"

namespace mobula::internal::runtime {
namespace {

using Json = nlohmann::json;
using Setter = std::function<Result<void>(const std::string&)>;

Failure bad(const std::string& text, const std::string& expected) {
  return failure(ErrorCode::invalid_argument, "'" + text + "' is not " + expected);
}

Setter amount(std::optional<Amount>& field) {
  return [&field](const std::string& text) -> Result<void> {
    const auto parsed = Quantity::parse(text);
    if (!parsed) return parsed.error();
    field = parsed->to_double();
    return {};
  };
}

template <class Field>
Setter bytes(Field& field) {
  return [&field](const std::string& text) -> Result<void> {
    const auto size = parse_bytes(text);
    if (!size) return size.error();
    field = *size;
    return {};
  };
}

Setter integer(int& field) {
  return [&field](const std::string& text) -> Result<void> {
    const auto* end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, field);
    if (error != std::errc() || stopped != end) return bad(text, "a whole number");
    return {};
  };
}

Setter text_of(std::string& field) {
  return [&field](const std::string& text) -> Result<void> {
    field = text;
    return {};
  };
}

// "k=v,k2=v2".
Setter pairs(std::map<std::string, std::string>& field) {
  return [&field](const std::string& text) -> Result<void> {
    std::size_t at = 0;
    while (at < text.size()) {
      const auto comma = std::min(text.find(',', at), text.size());
      const auto equals = text.find('=', at);
      if (equals == std::string::npos || equals >= comma)
        return bad(text, "a list such as k=v,k2=v2");
      field[text.substr(at, equals - at)] = text.substr(equals + 1, comma - equals - 1);
      at = comma + 1;
    }
    return {};
  };
}

Setter resources(Resources& field) {
  return [&field](const std::string& text) -> Result<void> {
    const auto json = Json::parse(text, nullptr, false);
    if (!json.is_object())
      return bad(text, "a JSON object such as {\"shuttle\": 2}, its amounts at most 1e14");
    for (const auto& [name, value] : json.items()) {
      if (!value.is_number()) return bad(text, "a JSON object of numbers");
      field[name] = value.get<double>();
    }
    return {};
  };
}

}  // namespace

Result<void> take_flags(int& argc, char** argv, InitOptions& options) {
  const std::map<std::string, Setter> setters{
      {"address", text_of(options.address)},
      {"num-cpus", amount(options.num_cpus)},
      {"num-gpus", amount(options.num_gpus)},
      {"gpu-memory", bytes(options.gpu_memory)},
      {"memory", bytes(options.memory)},
      {"object-store-memory", bytes(options.object_store_memory)},
      {"resources", resources(options.resources)},
      {"accelerator-type", text_of(options.accelerator_type)},
      {"labels", pairs(options.labels)},
      {"job-name", text_of(options.job_name)},
      {"name-space", text_of(options.name_space)},
      {"env", pairs(options.env)},
      {"log-level", text_of(options.log_level)},
      {"max-pending-bytes", bytes(options.max_pending_bytes)},
      {"job-priority", integer(options.job_priority)},
      {"job-weight", integer(options.job_weight)},
      {"job-quota", resources(options.job_quota)},
  };
  constexpr std::string_view prefix = "--mobula-";
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--") {
      while (i < argc) argv[kept++] = argv[i++];
      break;
    }
    if (!argument.starts_with(prefix)) {
      argv[kept++] = argv[i];
      continue;
    }
    const auto equals = argument.find('=');
    std::string name(
        argument.substr(prefix.size(), equals == argument.npos ? equals : equals - prefix.size()));
    for (auto& c : name) c = c == '_' ? '-' : c;
    const auto setter = setters.find(name);
    if (setter == setters.end()) {
      std::string known;
      for (const auto& [each, unused] : setters) known += " --mobula-" + each;
      return failure(ErrorCode::invalid_argument,
                     "--mobula-" + name + " is not a flag; the flags are" + known);
    }
    std::string value;
    if (equals != argument.npos) {
      value = argument.substr(equals + 1);
    } else if (i + 1 < argc) {
      value = argv[++i];
    } else {
      return failure(ErrorCode::invalid_argument, "--mobula-" + name + " needs a value");
    }
    if (auto set = setter->second(value); !set.ok()) {
      return failure(set.error().code, "--mobula-" + name + ": " + set.error().text);
    }
  }
  if (kept < argc) argv[kept] = nullptr;
  argc = kept;
  return {};
}

}  // namespace mobula::internal::runtime
