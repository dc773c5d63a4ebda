#include "client/api/untyped/call_signature.h"

#include <mobula/detail/describe.h>
#include <mobula/detail/value.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/mutex.h"

namespace mobula::internal {
namespace {

using detail::NumberKind;
using detail::Shape;
using detail::TypeDescription;

using Types = std::vector<const TypeDescription*>;

constexpr std::size_t most_lines = 256;

std::string number_name(const TypeDescription& type) {
  const char* const kind = type.number == NumberKind::floating         ? "float"
                           : type.number == NumberKind::signed_integer ? "int"
                                                                       : "uint";
  return kind + std::to_string(type.size_bytes * 8);
}

// The type without its parts.
std::string name_of(const TypeDescription& type) {
  if (type.fingerprint == detail::fingerprint<detail::Nothing>()) return "void";
  switch (type.shape) {
    case Shape::boolean: return "bool";
    case Shape::number: return number_name(type);
    case Shape::complex_number: return "complex";
    case Shape::optional: return "optional";
    case Shape::unique_pointer: return "unique_ptr";
    case Shape::variant: return "variant";
    case Shape::tuple: return "tuple";
    case Shape::array: return "array of " + std::to_string(type.count);
    case Shape::duration: return "duration in " + std::to_string(type.tick_s) + " s";
    case Shape::time_point: return "time point";
    case Shape::block:
    case Shape::sequence: return type.is_text ? "string" : "sequence";
    case Shape::association: return type.is_map ? "map" : "set";
    case Shape::enumeration: return "enum " + common_name(type.name);
    case Shape::custom: return common_name(type.name) + " with a Serializer";
    case Shape::plain_struct:
    case Shape::members: return "struct " + common_name(type.name);
    case Shape::none:
    case Shape::own: return common_name(type.name);
  }
  return common_name(type.name);
}

Types parts_of(const TypeDescription& type) {
  Types parts;
  if (type.add_parts != nullptr && !type.is_text) type.add_parts(parts);
  return parts;
}

class Lines {
 public:
  void add(const std::string& path, const TypeDescription& type) {
    const bool again = std::ranges::find(open_, &type) != open_.end();
    add(path, name_of(type));
    if (again || count_ >= most_lines) return;
    open_.push_back(&type);
    const Types parts = parts_of(type);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      add(path + (parts.size() == 1 ? ", element" : ", member " + std::to_string(i + 1)),
          *parts[i]);
    }
    open_.pop_back();
  }
  void add(const std::string& path, const std::string& type) {
    if (++count_ > most_lines) return;
    text_ += path + '\t' + type + '\n';
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  std::size_t count_ = 0;
  Types open_;
};

Types parameters_of(const detail::CallDescription& call) {
  Types parameters;
  if (call.add_parameters != nullptr) call.add_parameters(parameters);
  return parameters;
}

// The first line of `rest`, which it removes: a path and a type.
std::pair<std::string_view, std::string_view> take_line(std::string_view& rest) {
  const auto end = std::min(rest.find('\n'), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  const auto tab = std::min(line.find('\t'), line.size());
  return {line.substr(0, tab), line.substr(std::min(tab + 1, line.size()))};
}

}  // namespace

std::string common_name(std::string_view spelled) {
  std::string name;
  while (!spelled.empty()) name += detail::take_common_spelling(spelled);
  return name;
}

std::string types_of(const detail::Entry& entry) {
  if (entry.description() == nullptr) return {};
  Lines lines;
  const Types parameters = parameters_of(*entry.description());
  lines.add("number of parameters", std::to_string(parameters.size()));
  for (std::size_t i = 0; i < parameters.size(); ++i)
    lines.add("parameter " + std::to_string(i + 1), *parameters[i]);
  if (entry.description()->result != nullptr) {
    lines.add("the result", entry.description()->result());
  } else if (entry.is_streaming()) {
    lines.add("each item of the stream", entry.description()->items());
  } else {
    lines.add("the result", std::to_string(entry.results()) + " separate results");
  }
  return lines.take();
}

MethodSignature signature_of(const detail::Entry& entry) {
  struct Known {
    Mutex mutex;
    std::map<const detail::Entry*, MethodSignature> by_entry MOBULA_GUARDED_BY(mutex);
  };
  static auto* const known = new Known;  // leaked: threads of user code may outlive main
  const MutexLock lock(known->mutex);
  MethodSignature& signature = known->by_entry[&entry];
  // The entry of an unloaded library may have had this address.
  const std::string name = common_name(entry.name());
  if (signature.name != name) signature = {name, types_of(entry)};
  return signature;
}

std::string declaration_of(const detail::Entry& entry) {
  std::string text = common_name(entry.name());
  if (entry.description() == nullptr) return text;
  text += '(';
  bool first = true;
  for (const auto* each : parameters_of(*entry.description())) {
    text += (first ? "" : ", ") + name_of(*each);
    first = false;
  }
  text += ')';
  if (entry.description()->result != nullptr)
    text += " -> " + name_of(entry.description()->result());
  if (entry.is_streaming()) text += " -> stream of " + name_of(entry.description()->items());
  return text;
}

std::string difference_of(std::string_view caller, std::string_view actor) {
  while (!caller.empty() || !actor.empty()) {
    const auto [caller_path, caller_type] = take_line(caller);
    const auto [actor_path, actor_type] = take_line(actor);
    if (caller_path == actor_path && caller_type == actor_type) continue;
    const auto text = [](std::string_view path, std::string_view type, std::string_view other) {
      return path.empty()    ? std::string("absent")
             : path == other ? std::string(type)
                             : std::string(path) + " of type " + std::string(type);
    };
    const auto path = std::min(caller_path, actor_path);
    const auto shown = path.empty() ? std::max(caller_path, actor_path) : path;
    return std::string(shown) + " is " + text(caller_path, caller_type, shown) +
           " in the caller's program and " + text(actor_path, actor_type, shown) +
           " in the program of the actor";
  }
  return {};
}

}  // namespace mobula::internal
