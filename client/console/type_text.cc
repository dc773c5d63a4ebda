#include "client/console/type_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "base/text/json_writer.h"

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

constexpr std::size_t longest_shown = 60;  // length of JSON in a message

// Copy of the JSON cut to the length of a message. Printing the complete JSON would need stack
// space for its full depth.
Json outline(const Json& json, int levels = 6) {
  if (const auto kind = kind_of_part(json)) return text_of(*kind);
  if (json.is_binary()) return fmt::format("{} bytes", json.get_binary().size());
  if (!json.is_structured()) return json;
  if (levels == 0) return json.is_array() ? Json::array({"…"}) : Json::object({{"…", "…"}});
  Json copy = json.is_array() ? Json::array() : Json::object();
  for (auto at = json.begin(); at != json.end() && copy.size() < longest_shown; ++at) {
    if (json.is_array())
      copy.push_back(outline(*at, levels - 1));
    else
      copy[at.key()] = outline(at.value(), levels - 1);
  }
  return copy;
}

bool has_struct(const TypeDescription& type, int depth = 0) {
  if (depth > 8 || type.shape == Shape::plain_struct || type.shape == Shape::members) return true;
  return std::ranges::any_of(parts_of(type),
                             [&](const auto* part) { return has_struct(*part, depth + 1); });
}

// "member 2: ", "element: ", or "alternative 1: ".
std::string position_of(const TypeDescription& type, std::size_t part) {
  switch (type.shape) {
    case Shape::tuple:
    case Shape::members:
    case Shape::plain_struct: return fmt::format("member {}: ", part + 1);
    case Shape::variant: return fmt::format("alternative {}: ", part + 1);
    default: return "element: ";
  }
}

// Types may contain themselves.
std::string seek_no_json(const TypeDescription& type, bool neutral,
                         std::set<std::string_view>& seen) {
  if (!seen.insert(type.name).second || (neutral && part_kind_of(type))) return {};
  const bool has_own_words = type.shape == Shape::custom && !type.is_msgpack;
  if (type.shape == Shape::none || has_own_words || type.shape == Shape::own) {
    const char* const kind =
        neutral ? "a stream or a view; a function that returns mobula::generator gives a stream"
                : "a ref, a stream, a handle, or a tensor";
    return fmt::format("{} has no {} form: it is {}", type.name, neutral ? "neutral" : "JSON",
                       type.shape == Shape::custom ? "written by its own Serializer" : kind);
  }
  const Parts parts = parts_of(type);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (auto why = seek_no_json(*parts[i], neutral, seen); !why.empty())
      return position_of(type, i) + why;
  }
  return {};
}

}  // namespace

Parts parts_of(const TypeDescription& type) {
  Parts parts;
  type.add_parts(parts);
  return parts;
}

std::string shown(const Json& json) {
  std::string text = json_text(outline(json));
  if (text.size() > longest_shown) text = text.substr(0, longest_shown) + "…";
  return text;
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

std::string why_no_json(const TypeDescription& type, bool neutral) {
  if (type.shape == Shape::number || type.shape == Shape::boolean) return {};
  std::set<std::string_view> seen;
  return seek_no_json(type, neutral, seen);
}

}  // namespace mobula::internal::runtime::console
