// Streaming JSON writer for lists of thousands of rows. Building a document first takes ten times
// as long, and the head does nothing else in that time. The text equals the output of Json for the
// same members.
// Thread: owner. Not: validation. The caller opens, names, and closes in the correct order.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "base/id.h"

namespace mobula::internal::head {

class JsonText {
 public:
  JsonText& open_object() { return open('{'); }
  JsonText& close_object() { return close('}'); }
  JsonText& open_array() { return open('['); }
  JsonText& close_array() { return close(']'); }
  // Name of the next member. Names come from this program, so they are not escaped.
  JsonText& key(std::string_view name);

  // Invalid UTF-8 is replaced.
  JsonText& value(std::string_view text);
  JsonText& value(const std::string& text) { return value(std::string_view(text)); }
  JsonText& value(const char* text) { return value(std::string_view(text)); }
  JsonText& value(bool is) { return plain(is ? "true" : "false"); }
  JsonText& value(std::integral auto number) { return plain(std::to_string(number)); }
  // Writes null for an empty id.
  template <class Tag>
  JsonText& value(const Id<Tag>& id) {
    return id.empty() ? plain("null") : plain('"' + id.hex() + '"');
  }
  JsonText& null() { return plain("null"); }

  template <class Value>
  JsonText& member(std::string_view name, const Value& of) {
    return key(name).value(of);
  }

  std::string take() { return std::move(text_); }

 private:
  JsonText& open(char bracket);
  JsonText& close(char bracket);
  JsonText& plain(std::string_view text);
  void separate();

  std::string text_;
  bool first_ = true;  // first value of the open container, or the value of a member
};

}  // namespace mobula::internal::head
