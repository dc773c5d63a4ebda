#include "tune/runtime/trial/trial_command_line.h"

#include <fmt/format.h>

#include <functional>
#include <sstream>
#include <string_view>

#include "tune/api/core_values.h"

namespace mobula::internal::tune {
namespace {

bool is_name_letter(char each) {
  return (each >= 'a' && each <= 'z') || (each >= 'A' && each <= 'Z') ||
         (each >= '0' && each <= '9') || each == '_' || each == '-' || each == '.' || each == '/';
}

// The length of a name in braces at the beginning of the text; 0: none.
std::size_t length_in_braces(std::string_view text) {
  std::size_t length = 1;
  while (length < text.size() && is_name_letter(text[length])) ++length;
  const bool closed = length > 1 && length < text.size() && text[length] == '}';
  return text.starts_with('{') && closed ? length + 1 : 0;
}

// Replaces each name in braces by the result of `value_of`.
std::string replaced(std::string_view text,
                     const std::function<std::string(const std::string&)>& value_of) {
  std::string made;
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("${")) {
      made += rest.substr(0, 2);
      i += 2;
    } else if (const auto inner = rest.starts_with("{{") ? length_in_braces(rest.substr(1)) : 0;
               inner > 0 && rest.substr(inner + 1).starts_with("}")) {
      made += rest.substr(1, inner);
      i += inner + 2;
    } else if (const auto length = length_in_braces(rest); length > 0) {
      made += value_of(std::string(rest.substr(1, length - 2)));
      i += length;
    } else {
      made += text[i++];
    }
  }
  return made;
}

}  // namespace

std::optional<std::string> with_parameters(const std::string& text, const api::Config& config) {
  bool active = true;
  std::string made = replaced(text, [&](const std::string& name) {
    active = active && config.has(name);
    if (!active) return std::string();
    std::ostringstream value;
    value << config.at(name);
    return value.str();
  });
  return active ? std::optional(std::move(made)) : std::nullopt;
}

void check_command(const api::Command& command, const Space& space, bool open) {
  if (command.argv.empty() || command.argv.front().empty())
    refuse_tune("Command::argv", "empty; pass the program and its arguments");
  std::string names;
  for (const auto& [name, domain] : space) names += (names.empty() ? "" : ", ") + name;
  const auto check = [&](const std::string& field, const std::string& text) {
    replaced(text, [&](const std::string& name) {
      bool known = open;
      for (const auto& [own, domain] : space) known = known || own == name;
      if (!known)
        refuse_tune(field, fmt::format("'{}': no parameter '{}' in the space, which has: {}; write "
                                       "{{{{{}}}}} for the text",
                                       text, name, names, name));
      return std::string();
    });
  };
  for (const std::string& argument : command.argv) check("Command::argv", argument);
  for (const auto& [variable, text] : command.env) check("Command::env", text);
}

}  // namespace mobula::internal::tune
