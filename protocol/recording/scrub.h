// Removes secrets and user data from values before they are recorded. A core decides the same with
// the scrubbed value, because cores only test these texts and payloads for emptiness and equality.
// Thread: any.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/containers/copy_on_write.h"
#include "base/fields.h"
#include "base/hash.h"
#include "base/model/payload.h"

namespace mobula::internal {

// Replacements:
//  payloads                       one byte, if not empty
//  keys, tokens, tickets          keyed hash: equal for equal texts
//  values of environments         the same
//  arguments and printed lines    the same
// Fields are recognized by name and type (`is_secret`, below). Scrubbing is idempotent.

class Scrubber {
 public:
  // `key` must be random and stay in the process: with it, short texts could be guessed.
  explicit Scrubber(Hash128 key) : key_(key) {}

  void hide(std::string& text) const;
  void scrub(Payload& value) const;

  template <class T>
  void scrub(T& value) const {
    if constexpr (HasFields<T>) {
      for_each_field(value, [&](std::string_view name, auto& member) { scrub(name, member); });
    }
  }
  template <class T, class Allocator>
  void scrub(std::vector<T, Allocator>& values) const {
    if constexpr (std::is_class_v<T>) {
      for (T& each : values) scrub(each);
    }
  }
  template <class T>
  void scrub(std::optional<T>& value) const {
    if (value) scrub(*value);
  }
  template <class T>
  void scrub(CopyOnWrite<T>& value) const {
    if (!value.is_empty()) scrub(value.edit());
  }
  template <class K, class V>
  void scrub(std::map<K, V>& values) const {
    for (auto& [key, value] : values) scrub(value);
  }
  template <class... T>
  void scrub(std::variant<T...>& value) const {
    std::visit([&](auto& each) { scrub(each); }, value);
  }

 private:
  static bool is_secret(std::string_view name);
  static bool is_environment(std::string_view name);
  static bool is_user_text(std::string_view name);

  template <class T>
  void scrub(std::string_view name, T& member) const {
    if constexpr (std::is_same_v<T, std::string>) {
      if (is_secret(name)) hide(member);
    } else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>) {
      if (!is_environment(name)) return;
      for (auto& [variable, value] : member) hide(value);
    } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      if (!is_user_text(name)) return;
      for (auto& each : member) hide(each);
    } else {
      scrub(member);
    }
  }

  Hash128 key_;
};

}  // namespace mobula::internal
