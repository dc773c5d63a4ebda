// JSON documents as YAML 1.2, of which JSON strings are a subset. Strings that could be read as
// another type are quoted.
#include <algorithm>

#include "base/text/json_writer.h"
#include "cli/output/output.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

bool plain(const std::string& text) {
  static const std::string_view reserved[] = {"true", "false", "null", "yes", "no",
                                              "on",   "off",   "y",    "n"};
  std::string lower = text;
  for (auto& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (std::find(std::begin(reserved), std::end(reserved), lower) != std::end(reserved))
    return false;
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const auto fine = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '/' || c == '.';
  };
  return !text.empty() && letter(text.front()) && std::all_of(text.begin(), text.end(), fine);
}

std::string scalar(const Json& value) {
  if (value.is_string() && plain(value.get<std::string>())) return value.get<std::string>();
  return escaped_controls(json_text(value));
}

void write(const Json& value, std::size_t indent, std::string& out) {
  const std::string margin(indent, ' ');
  if (value.is_object()) {
    for (const auto& [name, each] : value.items()) {
      out += margin + (plain(name) ? name : escaped_controls(json_text(Json(name)))) + ":";
      if (each.is_structured() && !each.empty()) {
        out += "\n";
        write(each, indent + 2, out);
      } else {
        out += " " + scalar(each) + "\n";
      }
    }
    return;
  }
  for (const auto& each : value) {
    if (!each.is_structured() || each.empty()) {
      out += margin + "- " + scalar(each) + "\n";
      continue;
    }
    std::string inner;
    write(each, indent + 2, inner);
    inner[indent] = '-';  // the dash replaces the first blank of the first line
    out += inner;
  }
}

}  // namespace

std::string to_yaml(const Json& document) {
  if (!document.is_structured() || document.empty()) return scalar(document) + "\n";
  std::string out;
  write(document, 0, out);
  return out;
}

}  // namespace mobula::internal::cli
