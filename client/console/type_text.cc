#include "client/console/type_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace mobula::internal::runtime::console {
namespace {

using detail::NumberKind;
using detail::Shape;
using detail::TypeDescription;

std::string number_text(const TypeDescription& type) {
  const char* kind = type.number == NumberKind::floating         ? "float"
                     : type.number == NumberKind::signed_integer ? "int"
                                                                 : "uint";
  return fmt::format("{}{}", kind, type.size_bytes * 8);
}

bool has_struct(const TypeDescription& type, int depth = 0) {
  if (depth > 8 || type.shape == Shape::plain_struct || type.shape == Shape::members) return true;
  return std::ranges::any_of(parts_of(type),
                             [&](const auto* part) { return has_struct(*part, depth + 1); });
}

// Types may contain themselves.
std::string seek_no_json(const TypeDescription& type, std::set<std::string_view>& seen) {
  if (!seen.insert(type.name).second) return {};
  const bool has_own_words = type.shape == Shape::custom && !type.is_msgpack;
  if (type.shape == Shape::none || has_own_words || type.shape == Shape::own) {
    return fmt::format("{} has no JSON form: it is {}", type.name,
                       type.shape == Shape::custom ? "written by its own Serializer"
                                                   : "a ref, a handle or a tensor");
  }
  for (const auto* part : parts_of(type)) {
    if (auto why = seek_no_json(*part, seen); !why.empty()) return why;
  }
  return {};
}

}  // namespace

Parts parts_of(const TypeDescription& type) {
  Parts parts;
  type.add_parts(parts);
  return parts;
}

std::string joined(const Parts& parts) {
  std::string text;
  for (const auto* part : parts) text += (text.empty() ? "" : ", ") + type_text(*part);
  return text;
}

std::string type_text(const TypeDescription& type) {
  switch (type.shape) {
    case Shape::boolean: return "bool";
    case Shape::number: return number_text(type);
    case Shape::complex_number: return "[re, im]";
    case Shape::optional:
    case Shape::unique_pointer: return joined(parts_of(type)) + " or null";
    case Shape::variant: {
      std::string text;
      for (const auto* part : parts_of(type))
        text += (text.empty() ? "" : " or ") + type_text(*part);
      return text;
    }
    case Shape::tuple: return "(" + joined(parts_of(type)) + ")";
    case Shape::array: return fmt::format("[{} x {}]", type.count, joined(parts_of(type)));
    case Shape::duration: return "seconds";
    case Shape::time_point: return "seconds since the epoch";
    case Shape::block:
    case Shape::sequence: return type.is_text ? "string" : "[" + joined(parts_of(type)) + "]";
    case Shape::association: {
      const Parts parts = parts_of(type);
      if (!type.is_map) return "[" + joined(parts) + "]";
      const Parts pair = parts_of(*parts.front());
      return "{" + type_text(*pair[0]) + ": " + type_text(*pair[1]) + "}";
    }
    case Shape::plain_struct:
    case Shape::members: {
      const Parts parts = parts_of(type);
      if (parts.empty()) return "null";
      // Structs within by name alone: they may contain this one.
      std::string text;
      for (const auto* part : parts)
        text += (text.empty() ? "" : ", ") +
                (has_struct(*part) ? std::string(part->name) : type_text(*part));
      return fmt::format("{}[{}]", type.name, text);
    }
    case Shape::enumeration: return std::string(type.name);
    case Shape::none:
    case Shape::custom:
    case Shape::own: break;
  }
  return std::string(type.name);
}

std::string why_no_json(const TypeDescription& type) {
  std::set<std::string_view> seen;
  return seek_no_json(type, seen);
}

}  // namespace mobula::internal::runtime::console
