// Reports steps of a core that blocked the loop for too long, with the kinds of the event: a line
// such as `head: slow step event=ReceivedFromAgent/AgentFrame/FromProcess/Demand took_ms=2310`.
// Thread: any. Not: logging itself.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/time.h"

namespace mobula::internal {

inline constexpr Duration slow_step_threshold = std::chrono::milliseconds(100);

// The name of a type without its namespaces.
template <class T>
constexpr std::string_view type_name() {
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find("T = ") + 4);
  name = name.substr(0, name.find_first_of(";]<"));
  return name.substr(name.rfind(':') + 1);  // npos + 1: from the start
}

// Names of an event and of the messages in it. Stores no copies of names.
class EventKind {
 public:
  template <class... T>
  explicit EventKind(const std::variant<T...>& event) {
    add(event);
  }

  std::string text() const {
    std::string text;
    for (std::size_t i = 0; i < count_; ++i) {
      if (i > 0) text += '/';
      text += names_[i];
    }
    return text;
  }

 private:
  template <class... T>
  void add(const std::variant<T...>& value) {
    std::visit([this](const auto& each) { this->add(each); }, value);
  }
  template <class T>
  void add(const std::optional<T>& value) {
    if (value) add(*value);
  }
  template <class T>
  void add(const T& value) {
    if (count_ < names_.size()) names_[count_++] = type_name<T>();
    if constexpr (requires { value.frame.message; }) {
      add(value.frame.message);
    } else if constexpr (requires { value.message; }) {
      add(value.message);
    }
  }

  std::array<std::string_view, 5> names_;
  std::size_t count_ = 0;
};

// The line of the log for a step of `component`, or none if the step was within the threshold.
inline std::optional<std::string> slow_step_line(std::string_view component, const EventKind& kind,
                                                 Duration took) {
  if (took <= slow_step_threshold) return std::nullopt;
  return std::string(component) + ": slow step event=" + kind.text() +
         " took_ms=" + std::to_string(took / std::chrono::milliseconds(1));
}

}  // namespace mobula::internal
